"""Cases of DG-193."""

from __future__ import annotations

from records import UBUNTU1 as UB
from records import World

from causes.changes import Change, combine, get_survey, remove_neighbors
from causes.faults import BARE, VICTIM, Fault, make_step


def enslave(world: World) -> None:
    for card in get_survey(world)["interfaces"]:
        if card["name"] == "eth1":
            card.update(master="br0", master_kind="bridge")


CHANGES = {"enslaved": Change(UB, combine(enslave, remove_neighbors))}
QUIET = {"a member whose links work": enslave}
FAULTS = (
    Fault(
        "enslaved",
        BARE,
        make_step(
            VICTIM,
            "ip link add fault type bridge; ip link set fault up; ip link set eth1 master fault\n"
            "ip neigh flush dev eth1",
            "ip link set eth1 nomaster; ip link del fault",
        ),
        expect={"peer": "{peer}"},
    ),
)
