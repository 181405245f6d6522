"""Cases of VC-306."""

from __future__ import annotations

from verify_changes import busy, stop_rank

from fullmesh.verify.model import ClusterObservations


def waited(seen: ClusterObservations) -> None:
    busy(seen)
    stop_rank(seen, "fsdp", "hung")


VERIFICATION = {
    "processors": waited,
}
