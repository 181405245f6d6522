"""The container image cannot be pulled

A node could not get the image ({detail}): its name or tag is wrong, the registry needs a login, or
the node cannot reach the registry.

**Place:** the node that pulls, and its registry

**Prove:** on that node: crictl pull IMAGE (or docker pull IMAGE)

**Fix:** Correct the name, add the pull secret, or load the image on every node before the job.

**Source:** read: kubelet's and containerd's messages
"""

from __future__ import annotations

from fullmesh.causes.engine import Explains
from fullmesh.causes.logs import LogCause, Pattern

CAUSE = LogCause(
    "LG-332",
    __doc__,
    looks=(
        (
            'Warning  Failed  kubelet  Failed to pull image "registry.example/train:1": rpc '
            "error: code = NotFound"
        ),
    ),
    patterns=(
        Pattern("ailed to pull image", r"(?P<detail>[Ff]ailed to pull image \S{1,120})"),
        Pattern("ErrImagePull", r"(?P<detail>ErrImagePull)"),
        Pattern("ImagePullBackOff", r"(?P<detail>ImagePullBackOff)"),
    ),
    explains=(Explains(("LG-201", "LG-302")),),
    survivable=True,
    weight=86,
)
