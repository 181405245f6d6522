"""Kubernetes: a container ends again and again

Kubernetes starts a container of the job again and again ({detail}). If it ends by itself, its own log
has the reason. If its probe fails, Kubernetes ends it. An init container that waits for the master
shows that the master's pod or service is missing.

**Place:** the pod that the message names

**Prove:** kubectl logs POD --previous --all-containers, kubectl describe pod POD, and kubectl get
pods,svc of the job

**Fix:** Fix the error in the log of the container that ended. If an init container waits for a
name, create the master's pod and service first. If a probe fails, correct its path and port. If the
program needs longer to start, give it a startupProbe with a higher failureThreshold.

**Source:** kubeflow/trainer#2034, llm-d/llm-d-inference-sim#45, read: kubelet's messages
"""

from __future__ import annotations

from fullmesh.causes.logs import (
    Fact,
    LogCause,
    LogEvidence,
    LogFinding,
    Pattern,
    RecordedLog,
    Severity,
)
from fullmesh.printed import clean_and_shorten

ENDING_PROBES = ("liveness", "startup")


def describe_probe(_finding: LogFinding, evidence: LogEvidence) -> str:
    """Quote the result of the probe that failed."""
    results = [values[0] for values, _ in evidence.facts.of("probe")]
    return f"{clean_and_shorten(results[0], 160)}." if results else ""


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
        *(
            Pattern(
                f"failed {probe} probe, will be restarted",
                rf"(?P<detail>Container \S{{1,80}} failed {probe} probe), will be restarted",
            )
            for probe in ENDING_PROBES
        ),
    ),
    facts=tuple(
        Fact(
            "probe",
            Pattern(
                f"{probe.capitalize()} probe failed: ",
                rf"(?P<result>{probe.capitalize()} probe failed: \S[^\n]{{2,160}})",
            ),
        )
        for probe in ENDING_PROBES
    ),
    describe=describe_probe,
    severity=Severity.SYMPTOM,
    follows_any=True,
    weight=62,
    recorded=(
        RecordedLog(
            "a liveness probe whose path does not exist",
            (
                "  Warning  Unhealthy  25m (x3 over 25m)  kubelet  Liveness probe failed: HTTP probe "
                "failed with statuscode: 404\n"
                "  Normal   Killing    25m                kubelet  Container server failed liveness probe, "
                "will be restarted"
            ),
            heads=("LG-333", "LG-701"),
        ),
    ),
)
