"""Cases of DG-239."""

from __future__ import annotations

from records import EL1 as EL
from records import UBUNTU1 as UB
from records import World

from causes.changes import Break, Change, combine, get_survey


def set_speed(speed: int, name: str) -> Break:
    def change(world: World) -> None:
        for card in get_survey(world, name)["interfaces"]:
            card.update(physical=True, speed=speed)

    return change


CHANGES = {
    "speed": Change(UB, combine(set_speed(100000, EL), set_speed(1000, UB))),
}
