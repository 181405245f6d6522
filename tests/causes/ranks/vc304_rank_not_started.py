"""Cases of VC-304."""

from __future__ import annotations

from records import UBUNTU1

from fullmesh.verify.model import ClusterObservations


def lose_rank(seen: ClusterObservations) -> None:
    seen.nodes[UBUNTU1]["gloo"]["ranks"]["1"] = {"events": [], "log": "No such file: python"}


VERIFICATION = {
    "no interpreter": lose_rank,
}
