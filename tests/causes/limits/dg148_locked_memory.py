"""Cases of DG-148."""

from __future__ import annotations

from records import EL1 as EL
from records import UBUNTU1 as UB

from causes.changes import Change, combine, make_rdma_ports, set_survey_part
from causes.faults import BARE, NO_RDMA, PEER, VICTIM, Fault, fake_rdma, make_step

CHANGES = {
    "memlock": Change(
        UB,
        combine(
            set_survey_part("rdma", make_rdma_ports(), EL, UB),
            set_survey_part("limits", {"memlock": -1}, EL),
            set_survey_part("limits", {"memlock": 65536}),
        ),
    ),
}
FAULTS = (
    Fault(
        "memlock",
        BARE,
        make_step(VICTIM, fake_rdma(locked=65536), NO_RDMA) + make_step(PEER, fake_rdma(), NO_RDMA),
    ),
)
