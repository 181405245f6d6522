"""the fabric manager does not run, or is not the driver's own version (warning)

The fabric manager is a program that sets NVSwitches up when the driver starts, and takes no other version's driver.
Links that are up stay so without it; after a reset of a GPU or a boot they do not come up, and every CUDA program
fails with error 802. An upgrade of one of the two without the other is how it happens.

**Prove:** systemctl status nvidia-fabricmanager; nv-fabricmanager --version; nvidia-smi

**Fix:** The driver's own version of it, and both held together: role nvidia_driver.

**Source:** NVIDIA, Fabric Manager User Guide
"""

from __future__ import annotations

from fullmesh.causes.engine import RECORDED, Cause, CauseCase
from fullmesh.result.findings import WARNING

CAUSE = Cause(
    "VC-147",
    __doc__,
    severity=WARNING,
    cases=(
        CauseCase(
            "gpu-manager", "a fabric manager of another version than the driver", by=RECORDED
        ),
    ),
)
