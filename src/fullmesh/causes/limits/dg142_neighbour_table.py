"""The neighbour table is full

Above gc_thresh3 entries, the kernel forgets neighbours that it still communicates with, and
connections stall. It logs 'neighbour table overflow'.

**Prove:** ip neigh | wc -l && sysctl net.ipv4.neigh.default.gc_thresh3

**Fix:** Raise gc_thresh1, 2 and 3 above the number of peers, as role kernel_tuning does.

**Source:** measured with torch 2.13
"""

from __future__ import annotations

from collections.abc import Iterator

from fullmesh.causes.engine import RECORDED, Cause, CauseCase, Explains
from fullmesh.causes.evidence import ClusterEvidence
from fullmesh.causes.limits.limit_values import NEARLY, find_kernel_message
from fullmesh.causes.relations import KERNELS, LINKS, WALLS, has_root_node
from fullmesh.result.findings import Finding


def rule_neighbour_table(evidence: ClusterEvidence) -> Iterator[Finding]:
    """Find nodes whose neighbour table is too small for their peers."""
    key = (
        "net.ipv6.neigh.default.gc_thresh3"
        if evidence.plan["family"] == "ipv6"
        else "net.ipv4.neigh.default.gc_thresh3"
    )
    for name in evidence.nodes:
        most = evidence.number(name, key)
        count = int(evidence.survey(name).get("neighbours", {}).get("count", 0))
        said = find_kernel_message(evidence, name, "neighbour table")
        if not said and (not most or count < NEARLY * most):
            continue
        yield Finding(
            "DG-142",
            "L1",
            f"the neighbour table of {name} is full, so it forgets peers while it talks to them",
            node=name,
            seen=said or f"{count} of {most} entries",
            expected=f"{key} well above the number of peers",
            fix=f"on {name}: sysctl -w {key}={max(4096, 4 * (most or 1024))}",
        )


CAUSE = Cause(
    "DG-142",
    __doc__,
    find=rule_neighbour_table,
    weight=1060,
    explains=(Explains((*LINKS, *WALLS, *KERNELS, "DG-138"), has_root_node),),
    cases=(CauseCase("neighbours", "entries against gc_thresh3, table_fulls", by=RECORDED),),
)
