"""a container with a job in it takes its ports from another range than its node

A new network namespace starts with the kernel's default range, whatever its host has pinned. A job in a container of
its own network listens outside the opened range.

**Prove:** nsenter -t PID -n sysctl net.ipv4.ip_local_port_range

**Fix:** Use --network=host, or --sysctl on the container, or securityContext.sysctls on the pod.

**Source:** measured with nested namespaces
"""

from __future__ import annotations

from fullmesh.causes.engine import Cause, CauseCase

CAUSE = Cause(
    "DG-108",
    __doc__,
    weight=250,
    cases=(
        CauseCase(
            "netns-range",
            "unshare -n on the node; in it a dummy interface that is up and a process called torchrun, python or pt_*",
            bare=False,
        ),
    ),
)
