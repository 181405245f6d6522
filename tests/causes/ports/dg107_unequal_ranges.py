"""Cases of DG-107."""

from __future__ import annotations

from records import EL1 as EL
from records import UBUNTU1 as UB
from records import World

from causes.changes import Break, Change, setting, survey
from causes.faults import BARE, PEER, Fault, sysctl


def unplanned(change: Break) -> Break:
    """Nodes that nobody configured."""

    def both(world: World) -> None:
        for name in (EL, UB):
            survey(world, name)["manifest"] = False
        change(world)

    return both


CHANGES = {
    "other range": Change(UB, unplanned(setting("net.ipv4.ip_local_port_range", "20000 30000"))),
}
FAULTS = (
    # Somebody pinned the other node: the one that still has the kernel's own range was forgotten.
    Fault("range-drift-bare", BARE, sysctl("net.ipv4.ip_local_port_range=40000 44999", PEER)),
)
