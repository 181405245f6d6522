"""The store or rendezvous port is blocked, and the data range is open

Every rank connects to the store first. Rank 0 reports 'Timed out waiting for clients', and the
other ranks report 'client socket has timed out'.

**Prove:** on a worker, while the job waits: nc -zv MASTER 29500

**Fix:** On the master, open the store port (29500) and the rendezvous port (29400) to the peers.

**Source:** measured with torch 2.13
"""

from __future__ import annotations

from fullmesh.causes.engine import LINK, Cause, CauseCase, Explains
from fullmesh.causes.evidence import ClusterEvidence
from fullmesh.causes.firewall.blocked_links import (
    describe_link_verdict,
    is_about_services,
    make_block_finding,
    suggest_rule_fix,
)
from fullmesh.causes.firewall.blocking_rules import (
    BlockingRule,
    describe_direction,
)
from fullmesh.causes.relations import SHUT, has_same_blocked_ports
from fullmesh.result.findings import Finding
from fullmesh.verify.blocked import (
    DATA_KINDS,
)


def explain_named_ports(evidence: ClusterEvidence, rule: BlockingRule) -> Finding | None:
    """Find rules that block only the store's or the rendezvous port."""
    first = rule.group[0]
    if not first.kinds or set(first.kinds) & set(DATA_KINDS) or is_about_services(rule):
        return None
    verb = {"dropped": "drops", "rejected": "rejects", "refused": "resets"}[
        describe_link_verdict(rule)[0]
    ]
    text = f"{rule.node} {verb} {first.ports} for {describe_direction(rule)}, so no job of several nodes can start"
    return make_block_finding(rule, "DG-105", text, suggest_rule_fix(evidence, rule))


CAUSE = Cause(
    "DG-105",
    __doc__,
    explain_block=explain_named_ports,
    weight=700,
    explains=(Explains((*SHUT, "VC-209"), has_same_blocked_ports),),
    cases=(
        CauseCase(
            "store-drop", "drop 29500 and 29400 on the master's node, or one of them", fields=LINK
        ),
    ),
)
