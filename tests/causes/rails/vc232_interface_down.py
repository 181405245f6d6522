"""Cases of VC-232."""

from __future__ import annotations

from causes.changes import combine
from causes.rails import UB, Change, change_nic, find_rail_nic

CHANGES = {
    "rail, interface down": Change(UB, change_nic(UB, 1, running=False, carrier=False)),
    "rail, no carrier": Change(UB, change_nic(UB, 1, carrier=False)),
    "rail, no carrier, and the address is gone": Change(
        UB, change_nic(UB, 1, carrier=False, addresses=[])
    ),
    "rail, no carrier at the other end of its cable": Change(
        UB,
        combine(
            change_nic(UB, 1, running=False, carrier=False),
            lambda world: find_rail_nic(world, "el1", 1).update(carrier=False),
        ),
    ),
}
