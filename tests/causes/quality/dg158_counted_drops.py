"""Cases of DG-158."""

from __future__ import annotations

from records import UBUNTU1 as UB

from causes.changes import Change, block_links, block_reply_links, combine, raise_counter
from causes.faults import BARE, VICTIM, Fault, make_step

CHANGES = {
    "ipsec": Change(UB, combine(block_links(), raise_counter("Xfrm.XfrmInPolBlock", 12))),
    "queue": Change(
        UB, combine(block_reply_links("dropped"), raise_counter("Queue.eth1 pfifo", 7))
    ),
}
FAULTS = (
    Fault(
        "ipsec",
        BARE,
        make_step(
            VICTIM,
            "ip xfrm policy add src $V_ADDR dst $P_ADDR dir out action block",
            "ip xfrm policy delete src $V_ADDR dst $P_ADDR dir out",
        ),
        expect={"peer": "{peer}"},
    ),
    Fault(
        "queue",
        BARE,
        make_step(
            VICTIM, "tc qdisc add dev eth1 root bfifo limit 100", "tc qdisc del dev eth1 root"
        ),
        expect={"peer": "{peer}"},
    ),
)
