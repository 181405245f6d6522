"""Cases of DG-198."""

from __future__ import annotations

from records import EL1 as EL
from records import UBUNTU1 as UB
from records import World

from causes.changes import Change, survey, together
from causes.rdma import add_rails


def older(world: World) -> None:
    """One product with two versions, and another product."""
    for name, version in ((EL, "28.43.1014"), (UB, "28.39.3004")):
        first, second = survey(world, name)["rdma"]
        first.update(board="MT_0000000838", firmware=version)
        second.update(board="MT_0000000223", firmware="16.35.4030")


CHANGES = {"firmware of a NIC": Change(UB, together(add_rails, older))}
