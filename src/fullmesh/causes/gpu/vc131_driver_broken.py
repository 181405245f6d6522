"""NVIDIA's driver or its tool does not work on a node

nvidia-smi fails: the libraries are of another version than the module in the kernel (an update changed them under
it), the module is not loaded, a card fell off the bus, or no card could be started. CUDA fails alike.

**Prove:** nvidia-smi; cat /proc/driver/nvidia/version; dmesg | grep -i nvrm

**Fix:** Reboot after an update; a module that is not there: Secure Boot, DKMS, nouveau; a card that is gone: Xid 79.
Role nvidia_driver holds driver and libraries together.

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
