"""Cases of VC-206."""

from __future__ import annotations

from verify_changes import verdict

from causes.faults import BARE, LINK_OUT, VICTIM, Fault, make_step

VERIFICATION = {
    "other source": verdict("wrong_source"),
}
FAULTS = (
    Fault(
        "wrong-source",
        BARE,
        make_step(
            VICTIM,
            "ip addr add 10.99.0.1/32 dev eth1; ip route add $P_ADDR/32 dev eth1 src 10.99.0.1",
            "ip route del $P_ADDR/32 dev eth1; ip addr del 10.99.0.1/32 dev eth1",
        ),
        expect=LINK_OUT,
    ),
)
