"""Cases of DG-115."""

from __future__ import annotations

from records import UBUNTU1 as UB

from causes.changes import Change, block_links
from causes.faults import BARE, FIRST_PACKET, LINK_IN, MASTER, TUNED, WHOLE, Fault, add_rule_between

CHANGES = {
    "between": Change(UB, block_links(place="on_the_way")),
}
FAULTS = (
    Fault(
        "between",
        BARE,
        add_rule_between(FIRST_PACKET + "tcp dport $FIRST-$LAST drop", "P_CABLE"),
        expect={**LINK_IN, "port": WHOLE},
    ),
    Fault(
        "between",
        TUNED,
        add_rule_between(FIRST_PACKET + "tcp dport $FIRST-$LAST drop", "P_CABLE"),
        "tuned",
        MASTER,
        expect={**LINK_IN, "port": WHOLE},
    ),
)
