"""A service's port is blocked, and the data range is open

Ray, a JAX coordinator or an API uses ports of its own in addition to torch's. The service hangs at
the first port that is blocked, often without a message (ray#28191).

**Prove:** on a peer: nc -zv NODE PORT

**Fix:** Add the service to fullmesh_services and run site.yml, or open the port to the peers
(docs/services.md).

**Source:** measured with torch 2.13
"""

from __future__ import annotations

from fullmesh.causes.engine import LINK, Cause, CauseCase, Explains
from fullmesh.causes.evidence import ClusterEvidence
from fullmesh.causes.firewall.blocked_links import (
    describe_link_verdict,
    is_about_services,
    is_refused_by_kernel,
    make_block_finding,
    suggest_rule_fix,
)
from fullmesh.causes.firewall.blocking_rules import (
    BlockingRule,
    describe_direction,
)
from fullmesh.causes.relations import SHUT, has_same_blocked_ports
from fullmesh.result.findings import Finding


def explain_service_ports(evidence: ClusterEvidence, rule: BlockingRule) -> Finding | None:
    """Find rules that block only ports of services."""
    if not is_about_services(rule) or is_refused_by_kernel(rule):
        return None
    first = rule.group[0]
    verb = {"dropped": "drops", "rejected": "rejects", "refused": "resets"}[
        describe_link_verdict(rule)[0]
    ]
    text = f"{rule.node} {verb} {first.ports} for {describe_direction(rule)}, while torch's own ports are open"
    return make_block_finding(rule, "DG-175", text, suggest_rule_fix(evidence, rule))


CAUSE = Cause(
    "DG-175",
    __doc__,
    explain_block=explain_service_ports,
    weight=680,
    explains=(Explains((*SHUT, "VC-209"), has_same_blocked_ports),),
    cases=(
        CauseCase("service-drop", "the only input chain drops one port of a service", fields=LINK),
    ),
)
