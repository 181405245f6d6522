"""Packets between EFA nodes are lost, because the security group does not allow traffic to itself

EFA traffic has no ports. The security group must allow all traffic to and from itself, by its own
id. An egress rule for 0.0.0.0/0 is not enough. Jobs hang with NET/OFI error 4126.

**Prove:** aws ec2 describe-security-groups --group-ids ID

**Fix:** Add a rule for all traffic from and to the group itself.

**Source:** aws-ofi-nccl#663
"""

from __future__ import annotations

from fullmesh.causes.engine import LINK, RECORDED, Cause, CauseCase, Explains
from fullmesh.causes.evidence import ClusterEvidence
from fullmesh.causes.firewall.blocked_links import (
    describe_loss_between,
    has_efa_ends,
    is_between_nodes,
    make_block_finding,
)
from fullmesh.causes.firewall.blocking_rules import (
    BlockingRule,
)
from fullmesh.causes.relations import SHUT, has_same_blocked_ports
from fullmesh.result.findings import Finding


def explain_efa_block(evidence: ClusterEvidence, rule: BlockingRule) -> Finding | None:
    """Find packets that left one node and did not reach the other, if both have EFA devices."""
    if not is_between_nodes(rule) or not has_efa_ends(evidence, rule):
        return None
    text = f"{describe_loss_between(rule)} (both have EFA devices)"
    fix = (
        "allow all traffic from and to the security group itself, by its own id, in both directions"
    )
    return make_block_finding(rule, "DG-116", text, fix)


CAUSE = Cause(
    "DG-116",
    __doc__,
    explain_block=explain_efa_block,
    weight=730,
    explains=(Explains((*SHUT, "VC-209"), has_same_blocked_ports),),
    cases=(
        CauseCase(
            "efa",
            "a link is blocked between nodes that both have an EFA device",
            by=RECORDED,
            fields=LINK,
        ),
    ),
)
