"""The connection tracking table is full

The kernel silently drops new connections, and existing ones continue. It logs 'nf_conntrack: table
full, dropping packet'.

**Prove:** sysctl net.netfilter.nf_conntrack_count net.netfilter.nf_conntrack_max

**Fix:** Raise nf_conntrack_max, or find the program that opens so many connections.
"""

from __future__ import annotations

from collections.abc import Iterator

from fullmesh.causes.engine import RECORDED, Cause, CauseCase, Explains
from fullmesh.causes.evidence import ClusterEvidence
from fullmesh.causes.limits.limit_values import NEARLY, find_kernel_message
from fullmesh.causes.relations import KERNELS, LINKS, WALLS, has_root_node
from fullmesh.result.findings import Finding


def rule_conntrack(evidence: ClusterEvidence) -> Iterator[Finding]:
    """Find nodes whose connection tracking table is full, which silently drops new connections."""
    for name in evidence.nodes:
        most, count = (
            evidence.number(name, f"net.netfilter.nf_conntrack_{k}") for k in ("max", "count")
        )
        said = find_kernel_message(evidence, name, "conntrack")
        if not said and (not most or count is None or count < NEARLY * most):
            continue
        yield Finding(
            "DG-143",
            "L1",
            f"the connection tracking table of {name} is full, so new connections vanish",
            node=name,
            seen=said or f"{count} of {most} entries",
            expected="room for new connections",
            fix=f"on {name}: sysctl -w net.netfilter.nf_conntrack_max={4 * (most or 65536)}",
        )


CAUSE = Cause(
    "DG-143",
    __doc__,
    find=rule_conntrack,
    weight=1050,
    explains=(Explains((*LINKS, *WALLS, *KERNELS, "DG-138"), has_root_node),),
    cases=(CauseCase("conntrack", "nf_conntrack_count against nf_conntrack_max", by=RECORDED),),
)
