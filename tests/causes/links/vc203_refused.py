"""Cases of VC-203."""

from __future__ import annotations

from records import EL1, UBUNTU1
from verify_changes import block

from causes.faults import BARE, LINK_IN, WHOLE, Fault, add_firewall

VERIFICATION = {
    "reset by firewall": lambda s: block(s, UBUNTU1, EL1, "refused", "sample", "range"),
}
FAULTS = (
    Fault(
        "range-reset",
        BARE,
        add_firewall("iifname eth1 tcp dport $FIRST-$LAST reject with tcp reset"),
        expect={**LINK_IN, "port": WHOLE},
    ),
)
