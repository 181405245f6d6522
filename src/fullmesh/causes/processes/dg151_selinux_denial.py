"""SELinux denied an operation of a job

SELinux is in enforcing mode and denied a system call of a job's process. The job only gets
'Permission denied'.

**Prove:** ausearch -m avc -ts recent

**Fix:** Create a policy from the denial (audit2allow), or set selinux_mode (see role selinux_mode).
"""

from __future__ import annotations

from collections.abc import Iterator

from fullmesh.causes.engine import RECORDED, Cause, CauseCase
from fullmesh.causes.evidence import ClusterEvidence
from fullmesh.causes.processes.job_processes import OURS
from fullmesh.result.findings import Finding


def rule_selinux_denials(evidence: ClusterEvidence) -> Iterator[Finding]:
    """Report operations of a job that SELinux denied."""
    for name in evidence.nodes:
        held = evidence.survey(name).get("selinux", {})
        denied = [d for d in held.get("denials", []) if OURS.search(d["command"])]
        if denied and held.get("mode") == "enforcing":
            yield Finding(
                "DG-151",
                "L1",
                f"SELinux on {name} denied an operation of {denied[-1]['command']}",
                node=name,
                seen=denied[-1]["text"],
                expected="no denial",
                check=f"on {name}: ausearch -m avc -ts recent | audit2why",
                fix=f"on {name}: create a policy from the denial (audit2allow), or set selinux_mode",
            )


CAUSE = Cause(
    "DG-151",
    __doc__,
    find=rule_selinux_denials,
    needs=("selinux",),
    weight=110,
    cases=(CauseCase("selinux", "avc: denied in the audit log, of a job's command", by=RECORDED),),
)
