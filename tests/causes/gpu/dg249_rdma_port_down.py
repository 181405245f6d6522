"""Cases of DG-249."""

from __future__ import annotations

from records import EL1 as EL
from records import UBUNTU1 as UB

from causes.changes import Change, combine, make_rdma_ports, set_survey_part
from causes.faults import BARE, NO_RDMA, PEER, VICTIM, Fault, fake_rdma, make_step

CHANGES = {
    "rdma port": Change(
        UB,
        combine(
            set_survey_part("rdma", make_rdma_ports(), EL),
            set_survey_part("rdma", make_rdma_ports("DOWN")),
            set_survey_part("limits", {"memlock": -1}, EL, UB),
        ),
    ),
}
FAULTS = (
    Fault(
        "rdma-port",
        BARE,
        make_step(VICTIM, fake_rdma(state="1: DOWN"), NO_RDMA)
        + make_step(PEER, fake_rdma(), NO_RDMA),
    ),
)
