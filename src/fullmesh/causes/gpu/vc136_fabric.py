"""The NVLink fabric of a node is not initialized

On machines with NVSwitch, the fabric manager must configure the switches before CUDA can start. If
it does not run, or if its version differs from the driver's, every CUDA program fails with error
802 (system not yet initialized).

**Prove:** nvidia-smi -q | grep -A2 Fabric && systemctl status nvidia-fabricmanager

**Fix:** systemctl enable --now nvidia-fabricmanager, of exactly the driver's version (role
nvidia_driver)

**Source:** NVIDIA, Fabric Manager User Guide
"""

from __future__ import annotations

from fullmesh.causes.engine import RECORDED, Cause, CauseCase, Explains
from fullmesh.causes.relations import has_same_node

CAUSE = Cause(
    "VC-136",
    __doc__,
    weight=420,
    explains=(Explains(("VC-719", "VC-711", "VC-712"), has_same_node),),
    cases=(
        CauseCase(
            "gpu-fabric",
            "the fabric is not initialized, and its manager is installed but does not run",
            by=RECORDED,
        ),
    ),
)
