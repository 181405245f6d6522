"""Cases of DG-266."""

from __future__ import annotations

from boot_changes import route
from records import UBUNTU1 as UB

from causes.changes import Change
from causes.faults import TUNED, VICTIM, Fault, make_step

CHANGES = {
    "a route was typed in": Change(UB, route(known=False)),
}
FAULTS = (
    Fault(
        "boot-route",
        TUNED,
        make_step(VICTIM, "ip route add $P_ADDR/32 dev eth1", "ip route del $P_ADDR/32 dev eth1"),
    ),
)
