"""Kubernetes: a pod of the job was not scheduled

A pod of the job did not start ({detail}), so its ranks are missing.

**Place:** the cluster's scheduler, not the log's node

**Prove:** kubectl describe pod POD && kubectl get nodes -o wide

**Fix:** Free or add the resources that the message names, or correct the pod's requests, node
selector, taints and volumes. Use gang scheduling so that all pods of a job start together.

**Source:** read: the Kubernetes scheduler and kubelet
"""

from __future__ import annotations

from collections.abc import Iterator

from fullmesh.causes.engine import Explains
from fullmesh.causes.logs import Fact, LogCause, LogEvidence, LogFinding, Pattern, RecordedLog

SHOWN = tuple(
    Fact("pod waits", pattern)
    for pattern in (
        Pattern(
            "nodes are available: ", r"(?P<detail>\d{1,6}/\d{1,6} nodes are available: [^.]{1,80})"
        ),
        Pattern("exceeded quota: ", r"is forbidden: (?P<detail>exceeded quota: [\w.-]{1,80})"),
        Pattern(
            "has runAsNonRoot", r"(?P<detail>container has runAsNonRoot and image will run as root)"
        ),
        Pattern("MountVolume.SetUp failed", r"(?P<detail>MountVolume\.SetUp failed for volume)"),
        Pattern("Allocate failed due to", r"(?P<detail>Allocate failed due to [\w ]{5,80})"),
        Pattern(
            "number of devices unavailable",
            (
                r"(?P<detail>requested number of devices unavailable for [\w./-]{1,60}\. "
                r"Requested: \d{1,4}, Available: \d{1,4})"
            ),
        ),
        Pattern(
            "Unable to attach or mount volumes", r"(?P<detail>Unable to attach or mount volumes)"
        ),
        Pattern("Multi-Attach error", r"(?P<detail>Multi-Attach error for volume)"),
        Pattern(
            '" not found',
            r'Error: (?P<detail>(?:secret|configmap) "[\w.-]{1,80}" not found)',
        ),
        Pattern(
            "is forbidden: ",
            r"Error creating: (?P<detail>pods \S{1,80} is forbidden: [^,\n]{5,120})",
        ),
        Pattern(
            "ProvisioningFailed",
            r"ProvisioningFailed .{0,80}(?P<detail>storageclass\S{1,60} \"[\w.-]{1,60}\" not found)",
        ),
        Pattern("FailedCreatePodSandBox", r"(?P<detail>Failed ?CreatePodSandBox)"),
    )
)
DONE = Fact("pod waits, in the end", Pattern("Started container"))


def find_waiting_pod(evidence: LogEvidence) -> Iterator[LogFinding]:
    """Find a pod that waits, unless the same log shows that a container started."""
    known = evidence.facts
    done = {line.file for _, line in known.of(DONE.name)}
    found = [(values[0], line) for values, line in known.of(SHOWN[0].name) if line.file not in done]
    if found:
        yield CAUSE.make_finding({"detail": found[0][0]}, [line for _, line in found])


CAUSE = LogCause(
    "LG-331",
    __doc__,
    find=find_waiting_pod,
    facts=(*SHOWN, DONE),
    explains=(Explains(("LG-201", "LG-302")),),
    weight=86,
    recorded=(
        RecordedLog(
            "a pod without a node",
            (
                "Warning  FailedScheduling  default-scheduler  0/4 nodes are available: 4 "
                "Insufficient nvidia.com/gpu."
            ),
        ),
    ),
)
