"""Cases of VC-121."""

from __future__ import annotations

from causes.faults import BARE, VICTIM, Fault, at

FAULTS = (
    Fault(
        "no-address",
        BARE,
        at(VICTIM, "ip addr del $V_ADDR/24 dev eth1", "ip addr add $V_ADDR/24 dev eth1"),
    ),
)
