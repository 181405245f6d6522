"""The fabric manager does not run, or its version differs from the driver's (warning)

The fabric manager configures NVSwitches when the driver starts, and works only with the driver of
its own version. Without it, links that are up stay up. After a reset of a GPU or a reboot they do
not come up, and every CUDA program fails with error 802. This happens if only one of the two is
upgraded.

**Prove:** systemctl status nvidia-fabricmanager || nv-fabricmanager --version && nvidia-smi

**Fix:** Install the fabric manager of the driver's version, and hold both packages together (role
nvidia_driver).

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
            "gpu-manager", "a fabric manager of a different version than the driver", by=RECORDED
        ),
    ),
)
