"""Cases of DG-116."""

from __future__ import annotations

from records import EL1 as EL
from records import UBUNTU1 as UB

from causes.changes import Change, block_links, combine, make_rdma_ports, set_survey_part
from causes.faults import (
    ALL,
    BARE,
    FIRST_PACKET,
    LINK_IN,
    NO_RDMA,
    Fault,
    add_rule_between,
    fake_rdma,
    make_step,
)

CHANGES = {
    "efa": Change(
        UB,
        combine(
            block_links(place="on_the_way"),
            set_survey_part("rdma", make_rdma_ports(vendor="0x1d0f"), EL, UB),
            set_survey_part("limits", {"memlock": -1}, EL, UB),
        ),
    ),
}
FAULTS = (
    Fault(
        "efa",
        BARE,
        make_step(ALL, fake_rdma("efa_0", "0x1d0f"), NO_RDMA)
        + add_rule_between(FIRST_PACKET + "tcp dport $FIRST-$LAST drop", "P_CABLE"),
        expect=LINK_IN,
    ),
)
