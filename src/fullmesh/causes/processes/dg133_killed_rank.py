"""The kernel killed or stopped a job's process

If a rank ends between the store and the first collective, the others wait for it. Its own log may
be empty.

**Prove:** journalctl -k --since -30min

**Fix:** Give the job less memory per rank, or fix the crash.

**Source:** measured with torch 2.13
"""

from __future__ import annotations

from collections.abc import Iterator

from fullmesh.causes.engine import RECORDED, Cause, CauseCase
from fullmesh.causes.evidence import ClusterEvidence
from fullmesh.causes.processes.job_processes import OURS
from fullmesh.result.findings import Finding

KILLED = ("out of memory", "segfault")


def rule_killed_ranks(evidence: ClusterEvidence) -> Iterator[Finding]:
    """Report a rank that the kernel killed. The others wait for it until their timeout."""
    for name in evidence.nodes:
        for event in evidence.survey(name).get("kernel_log", []):
            if event["kind"] in KILLED and OURS.search(event["text"]):
                what = "killed" if event["kind"] == KILLED[0] else "stopped"
                yield Finding(
                    "DG-133",
                    "L1",
                    f"the kernel {what} a process of a job on {name} {event['age'] / 60:.0f} min ago ({event['kind']})",
                    node=name,
                    seen=event["text"],
                    expected="running ranks",
                    check=f"on {name}: journalctl -k --since -30min",
                    fix=f"reduce the memory that the job uses on {name}",
                )
                break


CAUSE = Cause(
    "DG-133",
    __doc__,
    find=rule_killed_ranks,
    needs=("kernel_log",),
    weight=120,
    cases=(
        CauseCase(
            "rank-killed",
            "the kernel log: out of memory, or segfault, of a python process",
            by=RECORDED,
        ),
    ),
)
