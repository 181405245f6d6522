"""Cases of VC-202."""

from __future__ import annotations

from records import EL1, UBUNTU1
from records import UBUNTU1 as UB
from verify_changes import block

from causes.faults import (
    BARE,
    DATA,
    LINK_IN,
    MASTER,
    TUNED,
    VICTIM,
    WHOLE,
    Fault,
    add_firewall,
    change_policy,
    make_step,
)

VERIFICATION = {
    "reject": lambda s: block(s, EL1, UBUNTU1, "rejected", "sample", "range"),
}
RECORDED = {"zone-reject": UB}
FAULTS = (
    Fault(
        "range-reject",
        BARE,
        add_firewall("iifname eth1 tcp dport $FIRST-$LAST reject with icmpx type admin-prohibited"),
        expect={**LINK_IN, "port": WHOLE},
    ),
    Fault(
        "range-reject",
        TUNED,
        make_step(
            VICTIM,
            change_policy(f"--remove-rich-rule={DATA}"),
            change_policy(f"--add-rich-rule={DATA}"),
        ),
        "zone",
        MASTER,
        expect={**LINK_IN, "port": WHOLE},
    ),
)
