"""Cases of VC-121."""

from __future__ import annotations

from records import UBUNTU1
from verify_changes import facts

from causes.faults import BARE, VICTIM, Fault, make_step

VERIFICATION = {
    "address gone": lambda s: facts(s)["addresses"].pop(s.address(UBUNTU1)),
}
FAULTS = (
    Fault(
        "no-address",
        BARE,
        make_step(VICTIM, "ip addr del $V_ADDR/24 dev eth1", "ip addr add $V_ADDR/24 dev eth1"),
    ),
)
