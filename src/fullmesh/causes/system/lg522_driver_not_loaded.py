"""The NVIDIA driver is not loaded

The node has no working NVIDIA driver ({detail}): its kernel module is not loaded (for example after
a kernel update without DKMS), or the driver's library is not in the container.

**Place:** the node of this log

**Prove:** on that node, run `lsmod | grep nvidia`, `ls /dev/nvidia*` and `dkms status`

**Fix:** Load the module (modprobe nvidia), or install the driver again for the running kernel and
reboot. Then restart the services that need the GPU.

**Source:** read: NVML's errors, Slurm's gres.conf, libnvidia-container
"""

from __future__ import annotations

from fullmesh.causes.engine import Explains
from fullmesh.causes.logs import LogCause, Pattern

CAUSE = LogCause(
    "LG-522",
    __doc__,
    examples=(
        "slurmd: fatal: can't stat gres.conf file /dev/nvidia0: No such file or directory",
        "nvidia-container-cli: initialization error: nvml error: driver not loaded: unknown",
    ),
    patterns=(
        Pattern(
            "can't stat gres.conf file", r"(?P<detail>can't stat gres.conf file /dev/\S{1,60})"
        ),
        Pattern("river not loaded", r"(?P<detail>nvml error: driver not loaded)"),
        Pattern(
            "river Not Loaded",
            r"(?P<detail>(?:nvml\w{1,30}\(\) failed|NVMLError\w{0,40}): Driver Not Loaded)",
        ),
        Pattern(
            "communicate with the NVIDIA driver",
            r"(?P<detail>couldn't communicate with the NVIDIA driver)",
        ),
        Pattern("Failed to open libnvidia-ml", r"(?P<detail>Failed to open libnvidia-ml\.so\.1)"),
        Pattern("NVML Shared Library Not Found", r"(?P<detail>NVML Shared Library Not Found)"),
        Pattern("Module nvidia not found", r"modprobe: FATAL: (?P<detail>Module nvidia not found)"),
        Pattern(
            "load the NVIDIA kernel module", r"(?P<detail>failed to load the NVIDIA kernel module)"
        ),
    ),
    explains=(Explains(("LG-521",)),),
    survivable=True,
    weight=90,
)
