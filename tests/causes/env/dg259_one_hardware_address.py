"""Cases of DG-259."""

from __future__ import annotations

from records import EL1 as EL
from records import UBUNTU1 as UB
from records import World

from causes.changes import Change, survey


def one_mac(world: World) -> None:
    """The cluster cards of both were cloned."""
    cards = {c["name"]: c["mac"] for c in survey(world, EL)["interfaces"]}
    for card in survey(world)["interfaces"]:
        card["mac"] = cards["eth1"] if card["name"] == "eth1" else card["mac"]


CHANGES = {
    "one hardware address": Change(UB, one_mac),
}
