"""The container runtime cannot pass GPUs

The container runtime of this node does not know the NVIDIA runtime ({detail}). The NVIDIA Container
Toolkit is missing or not configured.

**Place:** the node of this log

**Prove:** on that node, run `nvidia-ctk --version` and `docker info`

**Fix:** Install nvidia-container-toolkit, run nvidia-ctk runtime configure, and restart the
container runtime.

**Source:** read: Docker's and containerd's messages
"""

from __future__ import annotations

from fullmesh.causes.logs import LogCause, Pattern

CAUSE = LogCause(
    "LG-524",
    __doc__,
    examples=(
        (
            'docker: Error response from daemon: could not select device driver "" with '
            "capabilities: [[gpu]]."
        ),
    ),
    patterns=(
        Pattern("could not select device driver", r"(?P<detail>could not select device driver)"),
        Pattern("unresolvable CDI devices", r"(?P<detail>unresolvable CDI devices \S{1,80})"),
        Pattern(
            "unknown or invalid runtime name: nvidia",
            r"(?P<detail>unknown or invalid runtime name: nvidia)",
        ),
    ),
    weight=90,
)
