"""GPUs or the driver differ between the nodes

Ranks of a node with fewer GPUs share one or do not start; drivers that differ give 'message truncated' or nothing; a
GPU with an Xid hangs in the first kernel.

**Prove:** nvidia-smi; dmesg | grep -i xid

**Fix:** Bring the nodes to one driver, take a broken GPU out.

**Source:** nccl#1328
"""

from __future__ import annotations

from fullmesh.causes.engine import RECORDED, Cause, CauseCase, Explains
from fullmesh.causes.relations import has_same_node

CAUSE = Cause(
    "DG-149",
    __doc__,
    weight=400,
    explains=(Explains(("VC-111", "VC-719", "VC-711"), has_same_node),),
    cases=(CauseCase("gpus", "one node shows fewer GPUs, or another driver", by=RECORDED),),
)
