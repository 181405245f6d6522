"""A GPU has faulty memory that is remapped at the next reset (warning)

A GPU replaces faulty rows of its memory at its next reset. Until then it avoids them.

**Prove:** nvidia-smi -q -d ROW_REMAPPER

**Fix:** nvidia-smi --gpu-reset while no program uses the GPUs, or reboot the node.

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
