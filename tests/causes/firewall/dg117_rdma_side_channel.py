"""Cases of DG-117."""

from __future__ import annotations

from records import EL1 as EL
from records import UBUNTU1 as UB

from causes.changes import Change, block_links, combine, make_rdma_ports, set_survey_part
from causes.faults import ALL, BARE, LINK_IN, NO_RDMA, Fault, add_firewall, fake_rdma, make_step

CHANGES = {
    "rdma beside": Change(
        UB,
        combine(
            block_links(),
            set_survey_part("rdma", make_rdma_ports(), EL, UB),
            set_survey_part("limits", {"memlock": -1}, EL, UB),
        ),
    ),
}
FAULTS = (
    Fault(
        "rdma-tcp",
        BARE,
        make_step(ALL, fake_rdma(), NO_RDMA)
        + add_firewall("iifname eth1 tcp dport $FIRST-$LAST drop"),
        expect=LINK_IN,
    ),
)
