"""Cases of DG-115."""

from __future__ import annotations

from records import UBUNTU1 as UB

from causes.changes import Change, shut
from causes.faults import BARE, FIRST_PACKET, LINK_IN, MASTER, TUNED, WHOLE, Fault, on_the_way

CHANGES = {
    "between": Change(UB, shut(place="on_the_way")),
}
FAULTS = (
    Fault(
        "between",
        BARE,
        on_the_way(FIRST_PACKET + "tcp dport $FIRST-$LAST drop", "P_CABLE"),
        expect={**LINK_IN, "port": WHOLE},
    ),
    Fault(
        "between",
        TUNED,
        on_the_way(FIRST_PACKET + "tcp dport $FIRST-$LAST drop", "P_CABLE"),
        "tuned",
        MASTER,
        expect={**LINK_IN, "port": WHOLE},
    ),
)
