"""A GPU has NVLinks that are down (warning)

NCCL chooses the paths between GPUs at the start of a job, and uses only links that are up. Fewer
links make its rings slower, or send the data over PCIe.

**Prove:** nvidia-smi nvlink -s && nvidia-smi nvlink -e

**Fix:** Reboot the node. If the links stay down, have the baseboard or the NVLink bridge replaced.
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
