"""Cases of DG-157."""

from __future__ import annotations

from records import EL1 as EL
from records import UBUNTU1 as UB

from causes.changes import Change, by_hand, ends, learnt_once, put, together
from causes.faults import BARE, LINK_OUT, VICTIM, Fault, at

CHANGES = {
    "neighbour of before": Change(
        UB, together(ends("dropped"), by_hand, learnt_once, put("duplicates", [], EL))
    ),
    "neighbour by hand": Change(UB, together(ends("dropped"), by_hand)),
}
FAULTS = (
    Fault(
        "neighbour-by-hand",
        BARE,
        at(
            VICTIM,
            "ip neigh replace $P_ADDR lladdr 02:00:00:00:00:99 dev eth1 nud permanent",
            "ip neigh del $P_ADDR dev eth1",
        ),
        expect=LINK_OUT,
    ),
)
