"""Cases of VC-106."""

from __future__ import annotations

from verify_changes import facts

from causes.faults import BARE, VICTIM, Fault, make_step

VERIFICATION = {
    "no carrier": lambda s: facts(s)["interface"].update(up=False),
}
FAULTS = (
    Fault(
        "interface-down",
        BARE,
        make_step(
            VICTIM,
            "ip link set eth1 down",
            "ip link set eth1 up; ip addr replace fd78::${V_ADDR##*.}/64 dev eth1 nodad",
        ),
    ),
)
