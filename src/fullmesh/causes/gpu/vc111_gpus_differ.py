"""The number, model or driver of the GPUs differs (warning)

A job starts the planned number of ranks on every node. On a node with too few GPUs, ranks fail with
`invalid device ordinal`. A slower model slows down the whole job.

**Prove:** nvidia-smi -L && lspci -d 10de:

**Fix:** Find the missing GPU (dmesg | grep NVRM). Install one driver branch on all nodes: role
nvidia_driver.
"""

from __future__ import annotations

from fullmesh.causes.engine import Cause
from fullmesh.result.findings import WARNING

CAUSE = Cause("VC-111", __doc__, severity=WARNING)
