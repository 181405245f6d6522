"""Cases of VC-148."""

from __future__ import annotations

from records import EL1 as EL
from records import UBUNTU1 as UB
from verify_changes import ROCE_GIDS, pin_gid

from causes.changes import Change, put, rdma, together, variable
from fullmesh.result.findings import WARNING

VERIFICATION = {
    "gid pin": pin_gid("3", *ROCE_GIDS[:2]),
}
CHANGES = {
    "gid pin": Change(
        UB,
        together(
            put("rdma", rdma(), EL, UB),
            variable("NCCL_IB_GID_INDEX", "3"),
            put("limits", {"memlock": -1}, EL, UB),
        ),
        WARNING,
    ),
}
