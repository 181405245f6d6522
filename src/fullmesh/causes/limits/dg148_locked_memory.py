"""The limit of locked memory is too low for RDMA

RDMA needs to lock the memory that it transfers. With a low limit, NCCL fails with 'ibv_reg_mr:
Cannot allocate memory'.

**Prove:** ulimit -l

**Fix:** Set memlock to unlimited in /etc/security/limits.d, and LimitMEMLOCK=infinity in systemd
units.

**Source:** nccl-tests#206
"""

from __future__ import annotations

from collections.abc import Iterator

from fullmesh.causes.engine import RECORDED, Cause, CauseCase
from fullmesh.causes.evidence import ClusterEvidence
from fullmesh.observed.survey import LOCKED_LEAST
from fullmesh.result.findings import Finding


def rule_locked_memory(evidence: ClusterEvidence) -> Iterator[Finding]:
    """Find nodes with RDMA on which a process may not lock enough memory."""
    for name in evidence.nodes:
        soft = evidence.survey(name).get("limits", {}).get("memlock")
        active = any(port["state"] == "ACTIVE" for port in evidence.survey(name).get("rdma", []))
        if soft is None or not active or soft < 0 or soft >= LOCKED_LEAST:
            continue
        yield Finding(
            "DG-148",
            "L1",
            f"a process on {name} may lock {soft // 1024} KiB of memory, RDMA needs far more",
            node=name,
            seen=f"RLIMIT_MEMLOCK {soft}",
            expected="unlimited",
            fix=f"on {name}: '* - memlock unlimited' in /etc/security/limits.d, LimitMEMLOCK=infinity "
            f"in the job's unit",
        )


CAUSE = Cause(
    "DG-148",
    __doc__,
    find=rule_locked_memory,
    needs=("limits", "rdma"),
    weight=150,
    cases=(CauseCase("memlock", "64 KiB of locked memory on a node with RDMA", by=RECORDED),),
)
