"""Kubernetes: a pod of the job was not scheduled

A pod of the job did not start ({detail}), so its ranks are missing.

**Place:** the cluster's scheduler, not the log's node

**Prove:** kubectl describe pod POD && kubectl get nodes -o wide

**Fix:** Free or add the resources that the message names, or correct the pod's requests, node
selector, taints and volumes. Use gang scheduling so that all pods of a job start together.

**Source:** read: the Kubernetes scheduler and kubelet
"""

from __future__ import annotations

from fullmesh.causes.engine import Explains
from fullmesh.causes.logs import LogCause, Pattern

CAUSE = LogCause(
    "LG-331",
    __doc__,
    looks=(
        (
            "Warning  FailedScheduling  default-scheduler  0/4 nodes are available: 4 "
            "Insufficient nvidia.com/gpu."
        ),
    ),
    patterns=(
        Pattern(
            "nodes are available: ", r"(?P<detail>\d{1,6}/\d{1,6} nodes are available: [^.]{1,80})"
        ),
        Pattern("MountVolume.SetUp failed", r"(?P<detail>MountVolume\.SetUp failed for volume)"),
        Pattern("FailedCreatePodSandBox", r"(?P<detail>Failed ?CreatePodSandBox)"),
    ),
    explains=(Explains(("LG-201", "LG-302")),),
    survivable=True,
    weight=86,
)
