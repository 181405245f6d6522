"""WORLD_SIZE or NNODES differs between the nodes

The store waits for ranks that no node starts ('2/3 clients joined'), or more ranks connect than it
expects.

**Prove:** on every node: env | grep -E 'WORLD_SIZE|NNODES'

**Fix:** Set the same value on all nodes. With torchrun, unset WORLD_SIZE: torchrun sets it.

**Source:** measured with torch 2.13
"""

from __future__ import annotations

from collections.abc import Iterator

from fullmesh.causes.engine import Cause, CauseCase
from fullmesh.causes.env.job_interfaces import find_odd_values
from fullmesh.causes.evidence import ClusterEvidence
from fullmesh.result.findings import Finding, join_names


def rule_world_size(evidence: ClusterEvidence) -> Iterator[Finding]:
    """Find nodes whose WORLD_SIZE or NNODES differs from the plan's or from the other nodes'."""
    for variable, planned in (
        ("WORLD_SIZE", evidence.plan["world_size"]),
        ("NNODES", evidence.plan["nnodes"]),
    ):
        held = {n: v[0] for n in evidence.nodes if (v := evidence.variable(n, variable)) and v[0]}
        if not held:
            continue
        usual, odd = find_odd_values(held, str(planned))
        if not odd and not evidence.assumed and usual != str(planned):
            usual, odd = str(planned), list(held)
        if not odd:
            continue
        source = (evidence.variable(odd[0], variable) or ("", ""))[1]
        yield Finding(
            "DG-131",
            "L1",
            f"{variable} is {held[odd[0]]} on {join_names(odd)}, {usual} is right: ranks would wait for "
            f"ranks that never come",
            node=odd[0],
            peer=join_names([n for n in held if n not in odd]),
            seen=f"{variable}={held[odd[0]]} from {source}",
            expected=usual,
            fix=f"set {variable}={usual} in {source} on {join_names(odd)}"
            + ("" if evidence.assumed else f", or {evidence.seen.apply('launch')}"),
        )


CAUSE = Cause(
    "DG-131",
    __doc__,
    find=rule_world_size,
    needs=("environment",),
    weight=210,
    cases=(CauseCase("world-size", "WORLD_SIZE=3 on one node"),),
)
