"""Cases of VC-148."""

from __future__ import annotations

from records import EL1 as EL
from records import UBUNTU1 as UB

from causes.changes import Change, put, rdma, together, variable

CHANGES = {
    "gid pin": Change(
        UB,
        together(
            put("rdma", rdma(), EL, UB),
            variable("NCCL_IB_GID_INDEX", "3"),
            put("limits", {"memlock": -1}, EL, UB),
        ),
    ),
}
