"""A GPU has fewer PCIe lanes than others of its model (warning)

A GPU that is not seated properly, or a faulty riser, negotiates fewer lanes. Every copy to and from
this GPU is slower, and all ranks wait for it.

**Prove:** nvidia-smi -q -d PCIE && lspci -vv | grep LnkSta

**Fix:** Reseat the GPU, or replace its riser.
"""

from __future__ import annotations

from fullmesh.causes.engine import RECORDED, Cause, CauseCase
from fullmesh.result.findings import WARNING

CAUSE = Cause(
    "VC-114",
    __doc__,
    severity=WARNING,
    cases=(CauseCase("gpu-lanes", "four PCIe lanes of sixteen", by=RECORDED),),
)
