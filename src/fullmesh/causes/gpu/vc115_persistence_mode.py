"""Persistence mode is off (warning)

The driver is unloaded after each job. The next job starts slower, and counters and settings are
lost.

**Prove:** nvidia-smi -q | grep Persistence

**Fix:** systemctl enable --now nvidia-persistenced (role nvidia_driver does it)

**Source:** NVIDIA, Driver Persistence
"""

from __future__ import annotations

from fullmesh.causes.engine import RECORDED, Cause, CauseCase
from fullmesh.result.findings import WARNING

CAUSE = Cause(
    "VC-115",
    __doc__,
    severity=WARNING,
    cases=(CauseCase("gpu-persistence", "persistence mode is off", by=RECORDED),),
)
