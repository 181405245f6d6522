"""Kubernetes: a container ends again and again

A container of the job ends soon after its start, and Kubernetes waits before the next try
({detail}). Its own log has the reason. An init container that waits for the master shows that the
master's pod or service is missing.

**Place:** the pod that the message names

**Prove:** kubectl logs POD --previous --all-containers, and kubectl get pods,svc of the job

**Fix:** Fix the error in the log of the container that ended. If an init container waits for a
name, create the master's pod and service first.

**Source:** kubeflow/trainer#2034, read: kubelet's messages
"""

from __future__ import annotations

from fullmesh.causes.logs import LogCause, Pattern, Severity

CAUSE = LogCause(
    "LG-333",
    __doc__,
    examples=(
        ("Warning  BackOff  kubelet  Back-off restarting failed container init-pytorch in pod w-0"),
    ),
    patterns=(
        Pattern(
            "Back-off restarting failed container",
            r"(?P<detail>Back-off restarting failed container ?[\w-]{0,60})",
        ),
        Pattern(
            "reached the specified backoff limit",
            r"(?P<detail>reached the specified backoff limit)",
        ),
        Pattern("CrashLoopBackOff", r"(?P<detail>CrashLoopBackOff)"),
    ),
    severity=Severity.SYMPTOM,
    follows_any=True,
    weight=62,
)
