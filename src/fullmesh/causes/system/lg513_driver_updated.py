"""the NVIDIA driver's library was updated under the loaded module

NVML of one version met the kernel module of another: the driver was updated (an unattended
upgrade?) and the old module is still loaded, or the container brings a driver library of its own.

**Where:** the node of this log

**Prove:** on that node: cat /proc/driver/nvidia/version; ls -l /lib/*/libnvidia-ml.so.1; last
reboot

**Fix:** Reboot, or unload and load the nvidia modules with nothing using them; nvidia_driver_hold
keeps unattended upgrades away from the driver.

**Source:** illinois-scicomp/machine-shop-maintenance#60, yahoo/TensorFlowOnSpark#51
"""

from __future__ import annotations

from fullmesh.causes.logs import LogCause, Pattern

CAUSE = LogCause(
    "LG-513",
    __doc__,
    looks=("Failed to initialize NVML: Driver/library version mismatch",),
    patterns=(
        Pattern("river/library version mismatch"),
        Pattern("RM has detected an NVML/RM version mismatch"),
    ),
    weight=93,
)
