"""Cases of DG-158."""

from __future__ import annotations

from records import UBUNTU1 as UB

from causes.changes import Change, counted, ends, shut, together
from causes.faults import BARE, VICTIM, Fault, at

CHANGES = {
    "ipsec": Change(UB, together(shut(), counted("Xfrm.XfrmInPolBlock", 12))),
    "queue": Change(UB, together(ends("dropped"), counted("Queue.eth1 pfifo", 7))),
}
FAULTS = (
    Fault(
        "ipsec",
        BARE,
        at(
            VICTIM,
            "ip xfrm policy add src $V_ADDR dst $P_ADDR dir out action block",
            "ip xfrm policy delete src $V_ADDR dst $P_ADDR dir out",
        ),
        expect={"peer": "{peer}"},
    ),
    Fault(
        "queue",
        BARE,
        at(VICTIM, "tc qdisc add dev eth1 root bfifo limit 100", "tc qdisc del dev eth1 root"),
        expect={"peer": "{peer}"},
    ),
)
