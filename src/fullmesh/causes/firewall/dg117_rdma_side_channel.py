"""RDMA works, but the TCP ports that NCCL also needs are blocked

NCCL exchanges addresses over a TCP listener before it opens an RDMA connection. RDMA tests do not
use that listener, so they pass although jobs hang.

**Prove:** ./fullmesh verify -i INVENTORY

**Fix:** Open the data range between the nodes, as for a job without RDMA.

**Source:** NCCL 2.30, net_ib/connect.cc
"""

from __future__ import annotations

from fullmesh.causes.engine import LINK, RECORDED, Cause, CauseCase, Explains
from fullmesh.causes.evidence import ClusterEvidence
from fullmesh.causes.firewall.blocked_links import (
    list_rule_ends,
    make_block_finding,
    suggest_rule_fix,
)
from fullmesh.causes.firewall.blocking_rules import (
    BlockingRule,
    describe_direction,
)
from fullmesh.causes.relations import SHUT, has_same_blocked_ports
from fullmesh.result.findings import Finding, join_names
from fullmesh.verify.blocked import (
    DATA_KINDS,
)


def explain_rdma_block(evidence: ClusterEvidence, rule: BlockingRule) -> Finding | None:
    """Find blocked TCP ports on nodes with RDMA: NCCL exchanges its RDMA addresses over TCP."""
    ends = list_rule_ends(rule)
    up = all(
        any(p["state"] == "ACTIVE" for p in evidence.survey(end).get("rdma", [])) for end in ends
    )
    if not up or not set(rule.group[0].kinds) & set(DATA_KINDS):
        return None
    text = (
        f"RDMA is up on {join_names(ends)}, and {describe_direction(rule)} is blocked for {rule.group[0].ports}, which "
        "NCCL needs to"
        " set RDMA up"
    )
    return make_block_finding(rule, "DG-117", text, suggest_rule_fix(evidence, rule))


CAUSE = Cause(
    "DG-117",
    __doc__,
    explain_block=explain_rdma_block,
    weight=720,
    explains=(Explains((*SHUT, "VC-209"), has_same_blocked_ports),),
    cases=(
        CauseCase(
            "rdma-tcp",
            "a blocked link between nodes whose RDMA ports are active",
            by=RECORDED,
            fields=LINK,
        ),
    ),
)
