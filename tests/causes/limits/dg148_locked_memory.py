"""Cases of DG-148."""

from __future__ import annotations

from records import EL1 as EL
from records import UBUNTU1 as UB

from causes.changes import Change, put, rdma, together
from causes.faults import BARE, NO_RDMA, PEER, VICTIM, Fault, at, fake_rdma

CHANGES = {
    "memlock": Change(
        UB,
        together(
            put("rdma", rdma(), EL, UB),
            put("limits", {"memlock": -1}, EL),
            put("limits", {"memlock": 65536}),
        ),
    ),
}
FAULTS = (
    Fault(
        "memlock",
        BARE,
        at(VICTIM, fake_rdma(locked=65536), NO_RDMA) + at(PEER, fake_rdma(), NO_RDMA),
    ),
)
