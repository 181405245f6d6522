"""A node's own name resolves to an address that the node does not have

Without GLOO_SOCKET_IFNAME, Gloo uses the address of the node's own name. If the node does not have
that address, Gloo prints a warning and uses loopback, and peers cannot connect.

**Prove:** getent ahosts $(hostname)

**Fix:** Add the node's own address and name to /etc/hosts, or correct the DNS entry.

**Source:** measured with torch 2.13
"""

from __future__ import annotations

from collections.abc import Iterator

from fullmesh.causes.engine import Cause, CauseCase, Explains
from fullmesh.causes.evidence import ClusterEvidence, has_loopback_prefix
from fullmesh.causes.relations import is_own_name
from fullmesh.result.findings import Finding, join_names


def rule_own_host_name(evidence: ClusterEvidence) -> Iterator[Finding]:
    """Find nodes whose own name resolves to an address that they do not have."""
    for name in evidence.nodes:
        found = evidence.survey(name).get("own_answers", [])
        if not found or any(has_loopback_prefix(a) or evidence.holds(name, a) for a in found):
            continue
        hostname = evidence.seen.facts(name).get("names", {}).get("hostname", name)
        yield Finding(
            "DG-123",
            "L1",
            f"{name}'s own host name {hostname} resolves to an address that {name} does not have",
            node=name,
            seen=join_names(found),
            expected=evidence.address(name),
            fix=f"on {name}: put '{evidence.address(name)} {hostname}' into /etc/hosts, then check:"
            f" getent ahosts {hostname}",
        )


CAUSE = Cause(
    "DG-123",
    __doc__,
    find=rule_own_host_name,
    needs=("own_answers",),
    weight=630,
    explains=(Explains(("VC-101",), is_own_name),),
    cases=(CauseCase("own-foreign", "203.0.113.9 HOSTNAME in /etc/hosts"),),
)
