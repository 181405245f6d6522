"""A service listens, but not on the cluster address

The program listens only on 127.0.0.1 or on another interface's address, so peers get 'Connection
refused'. Its host name resolves to loopback, or its default is localhost.

**Prove:** on the node: ss -ltnp 'sport = :PORT'

**Fix:** Let the service listen on the cluster address (Ray: --node-ip-address, as fullmesh-ray sets
it), or on all addresses.

**Source:** measured with torch 2.13
"""

from __future__ import annotations

from dataclasses import replace

from fullmesh.causes.engine import LINK, Cause, CauseCase, Explains
from fullmesh.causes.evidence import ClusterEvidence
from fullmesh.causes.firewall.blocked_links import is_refused_by_kernel, make_block_finding
from fullmesh.causes.firewall.blocking_rules import (
    BlockingRule,
)
from fullmesh.causes.relations import SHUT, has_same_blocked_ports
from fullmesh.result.findings import Finding


def explain_service_elsewhere(evidence: ClusterEvidence, rule: BlockingRule) -> Finding | None:
    """Find services that listen on a different address than the cluster's."""
    if not is_refused_by_kernel(rule):
        return None
    first = rule.group[0]
    address = evidence.address(first.target)
    text = f"{first.ports} of {first.target} is in use, but nothing listens there on {address}"
    fix = (
        f"on {first.target}: ss -ltnp, then let the service listen on {address} or on all addresses"
    )
    return replace(
        make_block_finding(rule, "DG-275", text, fix, f"a listener on {address}"),
        node=first.target,
    )


CAUSE = Cause(
    "DG-275",
    __doc__,
    explain_block=explain_service_elsewhere,
    weight=670,
    explains=(Explains((*SHUT, "VC-209"), has_same_blocked_ports),),
    cases=(CauseCase("service-loopback", "a service that listens on 127.0.0.1", fields=LINK),),
)
