"""Cases of VC-212."""

from __future__ import annotations

from records import EL1

from fullmesh.verify.model import ClusterObservations


def move_sample_port(seen: ClusterObservations) -> None:
    seen.nodes[EL1]["node"]["ports"][0]["port"] = 40000


VERIFICATION = {
    "pin not real": move_sample_port,
}
