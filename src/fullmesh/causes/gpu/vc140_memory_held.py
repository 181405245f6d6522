"""Programs use memory of a GPU, and no job runs (warning)

A leftover process of an earlier job, or another user's program, uses GPU memory. The next job may
fail with CUDA out of memory.

**Prove:** nvidia-smi --query-compute-apps=pid,name,used_memory --format=csv

**Fix:** End the process. If several people share the machine, let a scheduler assign the GPUs.
"""

from __future__ import annotations

from fullmesh.causes.engine import RECORDED, Cause, CauseCase
from fullmesh.result.findings import WARNING

CAUSE = Cause(
    "VC-140",
    __doc__,
    severity=WARNING,
    cases=(CauseCase("gpu-held", "30 GB of a GPU are in use, and no job runs", by=RECORDED),),
)
