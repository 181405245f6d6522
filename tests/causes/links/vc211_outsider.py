"""Cases of VC-211."""

from __future__ import annotations

from verify_changes import reach_from_controller

from fullmesh.verify.model import ClusterObservations


def add_outsider(seen: ClusterObservations) -> None:
    object.__setattr__(seen, "outside", reach_from_controller(seen))


VERIFICATION = {
    "outsider": add_outsider,
}
