"""programs hold memory of a GPU and no job runs (warning)

A program that was left behind, or another user's, holds memory: the next job ends with CUDA out of memory.

**Prove:** nvidia-smi --query-compute-apps=pid,name,used_memory --format=csv; fuser -v /dev/nvidia*

**Fix:** End it. Where several people share the machine, let a scheduler hand out the GPUs.
"""

from __future__ import annotations

from fullmesh.causes.engine import RECORDED, Cause, CauseCase
from fullmesh.result.findings import WARNING

CAUSE = Cause(
    "VC-140",
    __doc__,
    severity=WARNING,
    cases=(CauseCase("gpu-held", "30 GB of a card are in use, no job runs", by=RECORDED),),
)
