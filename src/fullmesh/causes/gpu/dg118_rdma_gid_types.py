"""RDMA ports differ in their GID types or link layers

RoCE v2 needs a GID of that type, which the port gets from the IP address of its network interface. With none, or with
InfiniBand at the other end, NCCL ends with completion status 12.

**Prove:** show_gids; cat /sys/class/infiniband/DEVICE/ports/1/gid_attrs/types/*

**Fix:** Give the interface its address; leave NCCL_IB_GID_INDEX unset.

**Source:** nccl#426, nccl#1131
"""

from __future__ import annotations

from fullmesh.causes.engine import RECORDED, Cause, CauseCase, Explains
from fullmesh.causes.relations import has_same_node

CAUSE = Cause(
    "DG-118",
    __doc__,
    weight=360,
    explains=(Explains(("VC-148",), has_same_node),),
    cases=(CauseCase("roce-gid", "one node has a RoCE v2 GID, the other has none", by=RECORDED),),
)
