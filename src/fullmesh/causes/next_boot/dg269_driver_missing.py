"""the kernel that boots next has no NVIDIA module (warning)

A kernel came with an upgrade, and the driver's module was built for the one that runs only: after the reboot
nvidia-smi says that it cannot talk to the driver, and torch sees no GPU.

**Prove:** ls /lib/modules/*/updates/dkms/nvidia.ko* /lib/modules/*/extra/nvidia*; dkms status

**Fix:** dkms autoinstall -k KERNEL, or the precompiled modules that belong to it; nvidia_driver_hold keeps kernels
and driver together.

**Source:** dkms(8)
"""

from __future__ import annotations

from fullmesh.causes.engine import RECORDED, Cause, CauseCase
from fullmesh.result.findings import WARNING

CAUSE = Cause(
    "DG-269",
    __doc__,
    severity=WARNING,
    weight=20,
    cases=(CauseCase("boot-driver", "no nvidia.ko for the next kernel", by=RECORDED),),
)
