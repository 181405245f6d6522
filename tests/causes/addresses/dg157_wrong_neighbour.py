"""Cases of DG-157."""

from __future__ import annotations

from records import EL1 as EL
from records import UBUNTU1 as UB

from causes.changes import (
    Change,
    add_neighbor,
    block_reply_links,
    combine,
    make_neighbor_learned,
    set_survey_part,
)
from causes.faults import BARE, LINK_OUT, VICTIM, Fault, make_step

CHANGES = {
    "neighbour of before": Change(
        UB,
        combine(
            block_reply_links("dropped"),
            add_neighbor,
            make_neighbor_learned,
            set_survey_part("duplicates", [], EL),
        ),
    ),
    "neighbour by hand": Change(UB, combine(block_reply_links("dropped"), add_neighbor)),
}
FAULTS = (
    Fault(
        "neighbour-by-hand",
        BARE,
        make_step(
            VICTIM,
            "ip neigh replace $P_ADDR lladdr 02:00:00:00:00:99 dev eth1 nud permanent",
            "ip neigh del $P_ADDR dev eth1",
        ),
        expect=LINK_OUT,
    ),
)
