"""Cases of VC-106."""

from __future__ import annotations

from causes.faults import BARE, VICTIM, Fault, at

FAULTS = (
    Fault(
        "interface-down",
        BARE,
        at(
            VICTIM,
            "ip link set eth1 down",
            "ip link set eth1 up; ip addr replace fd78::${V_ADDR##*.}/64 dev eth1 nodad",
        ),
    ),
)
