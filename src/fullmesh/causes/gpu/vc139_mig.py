"""MIG is on (warning)

With MIG, a process sees one slice of one GPU. Slices have no direct connection to each other,
neither NVLink nor PCIe peer-to-peer.

**Prove:** nvidia-smi -L

**Fix:** nvidia-smi --multi-instance-gpu=0 on nodes that train over several GPUs. MIG is for small
jobs that share a GPU.

**Source:** NVIDIA, Multi-Instance GPU User Guide
"""

from __future__ import annotations

from fullmesh.causes.engine import RECORDED, Cause, CauseCase
from fullmesh.result.findings import WARNING

CAUSE = Cause(
    "VC-139", __doc__, severity=WARNING, cases=(CauseCase("gpu-mig", "MIG is on", by=RECORDED),)
)
