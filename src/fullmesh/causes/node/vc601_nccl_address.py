"""NCCL announces an address outside the cluster network

NCCL chose a different interface than the cluster's, so the peers connect to an address that they may
not reach.

**Prove:** NCCL_DEBUG=INFO ./JOB 2>&1 | grep Bootstrap

**Fix:** ansible-playbook site.yml -i INVENTORY --tags launch.
"""

from __future__ import annotations

from fullmesh.causes.engine import RECORDED, Cause, CauseCase, Explains
from fullmesh.causes.relations import has_same_node

CAUSE = Cause(
    "VC-601",
    __doc__,
    weight=500,
    explains=(Explains(("DG-134",), has_same_node),),
    cases=(CauseCase("nccl-library", "the library itself announces another address", by=RECORDED),),
)
