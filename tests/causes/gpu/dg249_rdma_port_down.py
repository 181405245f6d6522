"""Cases of DG-249."""

from __future__ import annotations

from records import EL1 as EL
from records import UBUNTU1 as UB

from causes.changes import Change, put, rdma, together
from causes.faults import BARE, NO_RDMA, PEER, VICTIM, Fault, at, fake_rdma

CHANGES = {
    "rdma port": Change(
        UB,
        together(
            put("rdma", rdma(), EL),
            put("rdma", rdma("DOWN")),
            put("limits", {"memlock": -1}, EL, UB),
        ),
    ),
}
FAULTS = (
    Fault(
        "rdma-port",
        BARE,
        at(VICTIM, fake_rdma(state="1: DOWN"), NO_RDMA) + at(PEER, fake_rdma(), NO_RDMA),
    ),
)
