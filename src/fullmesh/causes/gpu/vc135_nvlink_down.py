"""a GPU has NVLinks that are down (warning)

NCCL finds the way between GPUs once, by what is up: links that are down make rings slower, or lead them through PCIe
and the processor.

**Prove:** nvidia-smi nvlink -s; nvidia-smi nvlink -e; NCCL_DEBUG=INFO shows the channels

**Fix:** Reboot; then the baseboard or the bridge is what is broken.
"""

from __future__ import annotations

from fullmesh.causes.engine import RECORDED, Cause, CauseCase
from fullmesh.result.findings import WARNING

CAUSE = Cause(
    "VC-135",
    __doc__,
    severity=WARNING,
    cases=(CauseCase("gpu-nvlink", "two of 18 NVLinks are down", by=RECORDED),),
)
