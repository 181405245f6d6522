"""MASTER_PORT differs between the nodes

The ranks of that node connect to a port that no process listens on.

**Prove:** on every node: env | grep MASTER_PORT

**Fix:** Set the same port on all nodes.

**Source:** measured with torch 2.13
"""

from __future__ import annotations

from collections.abc import Iterator

from fullmesh.causes.engine import Cause, CauseCase, Explains
from fullmesh.causes.env.job_interfaces import find_odd_values
from fullmesh.causes.evidence import ClusterEvidence
from fullmesh.causes.relations import has_same_node
from fullmesh.result.findings import Finding, join_names


def rule_master_port(evidence: ClusterEvidence) -> Iterator[Finding]:
    """Find nodes whose MASTER_PORT differs."""
    held = {n: v[0] for n in evidence.nodes if (v := evidence.variable(n, "MASTER_PORT")) and v[0]}
    usual, odd = find_odd_values(held, str(evidence.plan["master"]["port"])) if held else ("", [])
    if odd:
        source = (evidence.variable(odd[0], "MASTER_PORT") or ("", ""))[1]
        yield Finding(
            "DG-128",
            "L1",
            f"MASTER_PORT is {held[odd[0]]} on {join_names(odd)} and {usual} elsewhere",
            node=odd[0],
            peer=join_names([n for n in held if n not in odd]),
            port=f"{held[odd[0]]}/tcp",
            seen=f"MASTER_PORT={held[odd[0]]} from {source}",
            expected=usual,
            fix=f"set MASTER_PORT={usual} in {source} on {join_names(odd)}",
        )


CAUSE = Cause(
    "DG-128",
    __doc__,
    find=rule_master_port,
    needs=("environment",),
    weight=220,
    explains=(Explains(("VC-324",), has_same_node),),
    cases=(CauseCase("master-port", "MASTER_PORT=29999 on one node"),),
)
