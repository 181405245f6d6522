"""the store or rendezvous port is shut, the data range is open

The store is the first thing that a rank connects to: rank 0 says 'Timed out waiting for clients', the others 'client
socket has timed out'.

**Prove:** on a worker: nc -zv MASTER 29500 while something listens there

**Fix:** Open the store's port (29500) and the rendezvous' (29400) to the peers on the master.

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
    """Only the store's or the rendezvous' port is shut."""
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
