"""Cases of DG-117."""

from __future__ import annotations

from records import EL1 as EL
from records import UBUNTU1 as UB

from causes.changes import Change, put, rdma, shut, together
from causes.faults import ALL, BARE, LINK_IN, NO_RDMA, Fault, at, fake_rdma, wall

CHANGES = {
    "rdma beside": Change(
        UB, together(shut(), put("rdma", rdma(), EL, UB), put("limits", {"memlock": -1}, EL, UB))
    ),
}
FAULTS = (
    Fault(
        "rdma-tcp",
        BARE,
        at(ALL, fake_rdma(), NO_RDMA) + wall("iifname eth1 tcp dport $FIRST-$LAST drop"),
        expect=LINK_IN,
    ),
)
