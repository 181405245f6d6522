"""A GPU is busy or unavailable

CUDA could not use a GPU, because it is busy or unavailable. Another process holds it in an
exclusive compute mode, a MIG instance is missing, or the GPU needs a reset.

**Place:** the node of this log

**Prove:** on that node, run `nvidia-smi -q -d COMPUTE` and `nvidia-smi
--query-compute-apps=pid,gpu_bus_id --format=csv`

**Fix:** End the other process, set the compute mode to default (nvidia-smi -c 0), or give each rank
its own GPU. If no process holds it, reset the GPU or reboot.

**Source:** read: CUDA's cudaErrorDevicesUnavailable
"""

from __future__ import annotations

from fullmesh.causes.engine import Explains
from fullmesh.causes.logs import RANK_FAILURE_EFFECTS, LogCause, Pattern

CAUSE = LogCause(
    "LG-525",
    __doc__,
    examples=("RuntimeError: CUDA error: CUDA-capable device(s) is/are busy or unavailable",),
    patterns=(
        Pattern(
            "busy or unavailable", r"CUDA-capable device(?:s are|\(s\) is/are) busy or unavailable"
        ),
    ),
    explains=(Explains(RANK_FAILURE_EFFECTS),),
    weight=88,
)
