"""Cases of DG-198."""

from __future__ import annotations

from records import EL1 as EL
from records import UBUNTU1 as UB
from records import World

from causes.changes import Change, combine, get_survey
from causes.rdma import add_rails


def set_older_firmware(world: World) -> None:
    """Set two versions for one product, and add another product."""
    for name, version in ((EL, "28.43.1014"), (UB, "28.39.3004")):
        first, second = get_survey(world, name)["rdma"]
        first.update(board="MT_0000000838", firmware=version)
        second.update(board="MT_0000000223", firmware="16.35.4030")


CHANGES = {"firmware of a NIC": Change(UB, combine(add_rails, set_older_firmware))}
