"""Cases of DG-107."""

from __future__ import annotations

from records import EL1 as EL
from records import UBUNTU1 as UB
from records import World

from causes.changes import Break, Change, change_sysctl, get_survey
from causes.faults import BARE, PEER, Fault, set_sysctl


def remove_plan(change: Break) -> Break:
    """Apply a change to nodes without a configuration."""

    def both(world: World) -> None:
        for name in (EL, UB):
            get_survey(world, name)["manifest"] = False
        change(world)

    return both


CHANGES = {
    "other range": Change(
        UB, remove_plan(change_sysctl("net.ipv4.ip_local_port_range", "20000 30000"))
    ),
}
FAULTS = (
    # Only the other node was configured, and this one still has the kernel's default range.
    Fault("range-drift-bare", BARE, set_sysctl("net.ipv4.ip_local_port_range=40000 44999", PEER)),
)
