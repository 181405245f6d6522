"""The NVIDIA driver's library does not match the loaded kernel module

NVML has a different version than the loaded kernel module. The driver was updated (perhaps by an
unattended upgrade) while the old module stayed loaded, or the container has its own driver library.

**Place:** the node of this log

**Prove:** on that node, compare `cat /proc/driver/nvidia/version` with `ls -l
/lib/*/libnvidia-ml.so.1`

**Fix:** Reboot, or reload the nvidia modules when no process uses them. The setting
nvidia_driver_hold excludes the driver from unattended upgrades.

**Source:** illinois-scicomp/machine-shop-maintenance#60, yahoo/TensorFlowOnSpark#51
"""

from __future__ import annotations

from fullmesh.causes.logs import LogCause, Pattern

CAUSE = LogCause(
    "LG-513",
    __doc__,
    examples=("Failed to initialize NVML: Driver/library version mismatch",),
    patterns=(
        Pattern("river/library version mismatch"),
        Pattern("NVRM: API mismatch"),
        Pattern("RM has detected an NVML/RM version mismatch"),
    ),
    weight=93,
)
