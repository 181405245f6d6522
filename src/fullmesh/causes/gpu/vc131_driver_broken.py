"""NVIDIA's driver or nvidia-smi does not work on a node

nvidia-smi fails, and so does every CUDA program. The driver's libraries and its kernel module have
different versions (after an update), the module is not loaded, a GPU is no longer on the bus, or no
GPU could be initialized.

**Prove:** nvidia-smi || cat /proc/driver/nvidia/version && dmesg | grep -i nvrm

**Fix:** Reboot after an update. If the module is missing, check Secure Boot, DKMS and nouveau. If a
GPU is missing, see Xid 79. Role nvidia_driver keeps driver and libraries together.

**Source:** NVML API reference, nvmlReturn_t
"""

from __future__ import annotations

from fullmesh.causes.engine import RECORDED, Cause, CauseCase, Explains
from fullmesh.causes.relations import has_same_node

CAUSE = Cause(
    "VC-131",
    __doc__,
    weight=430,
    explains=(Explains(("VC-719", "VC-711"), has_same_node),),
    cases=(
        CauseCase(
            "gpu-driver",
            "nvmlInit says that driver and libraries are of different versions",
            by=RECORDED,
        ),
    ),
)
