"""number, model or driver of the GPUs differ (warning)

A job starts as many ranks as the plan says on every node; a GPU too few ends in `invalid device ordinal`, another
model sets the pace for all.

**Prove:** nvidia-smi -L; lspci -d 10de:

**Fix:** Find the missing card (dmesg | grep NVRM); one driver branch for all nodes: role nvidia_driver.
"""

from __future__ import annotations

from fullmesh.causes.engine import Cause
from fullmesh.result.findings import WARNING

CAUSE = Cause("VC-111", __doc__, severity=WARNING)
