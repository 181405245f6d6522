"""Cases of VC-306."""

from __future__ import annotations

from verify_changes import set_load, stop_rank

from fullmesh.verify.model import ClusterObservations


def delay_ranks(seen: ClusterObservations) -> None:
    set_load(seen)
    stop_rank(seen, "fsdp", "hung")


VERIFICATION = {
    "processors": delay_ranks,
}
