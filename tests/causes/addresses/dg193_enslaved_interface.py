"""Cases of DG-193."""

from __future__ import annotations

from records import UBUNTU1 as UB
from records import World

from causes.changes import Change, survey, together, unanswered
from causes.faults import BARE, VICTIM, Fault, at


def enslave(world: World) -> None:
    for card in survey(world)["interfaces"]:
        if card["name"] == "eth1":
            card.update(master="br0", master_kind="bridge")


CHANGES = {"enslaved": Change(UB, together(enslave, unanswered))}
QUIET = {"a member whose links work": enslave}
FAULTS = (
    Fault(
        "enslaved",
        BARE,
        at(
            VICTIM,
            "ip link add fault type bridge; ip link set fault up; ip link set eth1 master fault\n"
            "ip neigh flush dev eth1",
            "ip link set eth1 nomaster; ip link del fault",
        ),
        expect={"peer": "{peer}"},
    ),
)
