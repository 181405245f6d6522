"""a GPU has fewer PCIe lanes than others of its model (warning)

A card that sits badly, or a riser that fails, negotiates fewer lanes; every copy to and from it is slower and all
ranks wait.

**Prove:** nvidia-smi -q -d PCIE; lspci -vv | grep LnkSta

**Fix:** Reseat the card or its riser.
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
