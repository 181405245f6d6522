"""Cases of VC-242."""

from __future__ import annotations

from records import World

from causes.changes import node, together
from causes.rails import EL, UB, Change, lose_links, make_mac


def hear_other_rail(world: World) -> None:
    """Each interface of el1 hears the peer's interface of the other rail."""
    probe = node(world, EL)["links"]["rails"]
    probe["heard"] = [
        {"nic": "eth2", "mac": make_mac(1, UB)},
        {"nic": "eth3", "mac": make_mac(0, UB)},
    ]


CHANGES = {"rail, swapped cables": Change(EL, together(lose_links(0, EL, UB), hear_other_rail))}
