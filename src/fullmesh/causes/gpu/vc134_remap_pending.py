"""a GPU has memory that is remapped at the next reset (warning)

Broken rows of a GPU's memory are replaced at its next reset; until then it works around them.

**Prove:** nvidia-smi -q -d ROW_REMAPPER

**Fix:** nvidia-smi --gpu-reset without any program on the GPUs, or a reboot.

**Source:** NVIDIA, GPU Memory Error Management
"""

from __future__ import annotations

from fullmesh.causes.engine import RECORDED, Cause, CauseCase
from fullmesh.result.findings import WARNING

CAUSE = Cause(
    "VC-134",
    __doc__,
    severity=WARNING,
    cases=(CauseCase("gpu-pending", "a row of memory that waits for a reset", by=RECORDED),),
)
