"""too little locked memory for RDMA

RDMA registers the memory that it sends from: 'ibv_reg_mr: Cannot allocate memory'.

**Prove:** ulimit -l

**Fix:** memlock unlimited in /etc/security/limits.d and LimitMEMLOCK=infinity in units.

**Source:** nccl-tests#206
"""

from __future__ import annotations

from fullmesh.causes.engine import RECORDED, Cause, CauseCase

CAUSE = Cause(
    "DG-148",
    __doc__,
    weight=150,
    cases=(CauseCase("memlock", "64 KiB of locked memory on a node with RDMA", by=RECORDED),),
)
