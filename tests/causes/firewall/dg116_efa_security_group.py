"""Cases of DG-116."""

from __future__ import annotations

from records import EL1 as EL
from records import UBUNTU1 as UB

from causes.changes import Change, put, rdma, shut, together
from causes.faults import (
    ALL,
    BARE,
    FIRST_PACKET,
    LINK_IN,
    NO_RDMA,
    Fault,
    at,
    fake_rdma,
    on_the_way,
)

CHANGES = {
    "efa": Change(
        UB,
        together(
            shut(place="on_the_way"),
            put("rdma", rdma(vendor="0x1d0f"), EL, UB),
            put("limits", {"memlock": -1}, EL, UB),
        ),
    ),
}
FAULTS = (
    Fault(
        "efa",
        BARE,
        at(ALL, fake_rdma("efa_0", "0x1d0f"), NO_RDMA)
        + on_the_way(FIRST_PACKET + "tcp dport $FIRST-$LAST drop", "P_CABLE"),
        expect=LINK_IN,
    ),
)
