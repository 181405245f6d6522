"""Cases of DG-259."""

from __future__ import annotations

from records import EL1 as EL
from records import UBUNTU1 as UB
from records import World

from causes.changes import Change, get_survey


def copy_mac(world: World) -> None:
    """Give both cluster interfaces the same hardware address."""
    cards = {c["name"]: c["mac"] for c in get_survey(world, EL)["interfaces"]}
    for card in get_survey(world)["interfaces"]:
        card["mac"] = cards["eth1"] if card["name"] == "eth1" else card["mac"]


CHANGES = {
    "one hardware address": Change(UB, copy_mac),
}
