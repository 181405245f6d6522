"""A running container lost its GPUs

NVML answers Unknown Error. In a container, this means that systemd reloaded its units and took away
the container's right to open the GPU devices. On the host, a GPU may have failed.

**Place:** the container of this log

**Prove:** compare `nvidia-smi` in the container and on the host. If it works on the host, look for
a reload: journalctl -u docker -u containerd -g reload

**Fix:** Restart the container. To prevent it, use CDI, or the cgroup driver cgroupfs, or pass each
device (--device /dev/nvidia0). On the host, follow LG-506.

**Source:** read: NVIDIA Container Toolkit's troubleshooting guide
"""

from __future__ import annotations

from fullmesh.causes.engine import Explains
from fullmesh.causes.logs import LogCause, Pattern

CAUSE = LogCause(
    "LG-523",
    __doc__,
    examples=("Failed to initialize NVML: Unknown Error",),
    patterns=(Pattern("Failed to initialize NVML: Unknown Error"),),
    explains=(Explains(("LG-521",)),),
    weight=88,
)
