"""NCCL announces another address than the cluster's

NCCL chose another interface.

**Prove:** NCCL_DEBUG=INFO

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
