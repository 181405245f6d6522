"""Cases of DG-188."""

from __future__ import annotations

from records import UBUNTU1 as UB
from records import World

from causes.changes import Change, get_survey


def set_half_duplex(world: World) -> None:
    for card in get_survey(world)["interfaces"]:
        card.update(physical=True, duplex="half", speed=100)


CHANGES = {"half duplex": Change(UB, set_half_duplex)}
