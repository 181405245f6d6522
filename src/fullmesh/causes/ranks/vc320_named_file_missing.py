"""A variable names a file that jobs cannot read

NCCL ignores a topology, graph or tuner file that it cannot open, or ends. The file is missing, or is closed to the
account of jobs.

**Prove:** su -l ACCOUNT -c 'env | grep -E "NCCL_.*FILE"'

**Fix:** Create the file, or remove the variable.

**Source:** NCCL, graph/xml.cc
"""

from __future__ import annotations

from collections.abc import Iterator

from fullmesh.causes.engine import Cause, CauseCase
from fullmesh.result.findings import WARNING, Finding
from fullmesh.verify.job_start import list_failed_steps
from fullmesh.verify.model import ClusterObservations


def rule_named_files(seen: ClusterObservations) -> Iterator[Finding]:
    """Check that files that variables name exist."""
    for name, _, steps in list_failed_steps(seen, "path"):
        for step in steps:
            place = step["source"] or "the login's environment"
            yield Finding(
                "VC-320",
                "L1",
                f"{step['subject']} on {name} names {step['error']}, which jobs cannot read",
                node=name,
                seen=f"{step['subject']}={step['error']} from {place}",
                expected="a readable file, or no such variable",
                fix=f"on {name}: create the file, or remove {step['subject']} from {place}",
                severity=WARNING,
            )


CAUSE = Cause(
    "VC-320",
    __doc__,
    find=rule_named_files,
    severity=WARNING,
    weight=280,
    cases=(
        CauseCase("job-topology-missing", "NCCL_TOPO_FILE=/etc/nccl/gone.xml in /etc/environment"),
    ),
)
