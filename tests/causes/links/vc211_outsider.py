"""Cases of VC-211."""

from __future__ import annotations

from verify_changes import outside

from fullmesh.verify.model import ClusterObservations


def outsider(seen: ClusterObservations) -> None:
    object.__setattr__(seen, "outside", outside(seen))


VERIFICATION = {
    "outsider": outsider,
}
