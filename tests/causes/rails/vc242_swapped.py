"""Cases of VC-242."""

from __future__ import annotations

from records import World

from causes.changes import combine, get_node
from causes.rails import EL, UB, Change, lose_links, make_mac


def lose_rails(world: World) -> None:
    """No connection works over both rails."""
    lose_links(0, EL, UB)(world)
    for name in (EL, UB):
        for one in get_node(world, name)["links"]["rails"]["links"]:
            one.update(verdict="dropped", mac="")


def hear_other_rail(world: World) -> None:
    """Each interface hears the peer's interface of the other rail."""
    for name, peer in ((EL, UB), (UB, EL)):
        get_node(world, name)["links"]["rails"]["heard"] = [
            {"nic": "eth2", "mac": make_mac(1, peer)},
            {"nic": "eth3", "mac": make_mac(0, peer)},
        ]


CHANGES = {"rail, swapped cables": Change(EL, combine(lose_rails, hear_other_rail))}
