"""Cases of VC-148."""

from __future__ import annotations

from records import EL1 as EL
from records import UBUNTU1 as UB
from verify_changes import ROCE_GIDS, pin_gid

from causes.changes import Change, combine, make_rdma_ports, set_survey_part, set_variable
from fullmesh.result.findings import WARNING

VERIFICATION = {
    "gid pin": pin_gid("3", *ROCE_GIDS[:2]),
}
CHANGES = {
    "gid pin": Change(
        UB,
        combine(
            set_survey_part("rdma", make_rdma_ports(), EL, UB),
            set_variable("NCCL_IB_GID_INDEX", "3"),
            set_survey_part("limits", {"memlock": -1}, EL, UB),
        ),
        WARNING,
    ),
}
