"""Connection tracking forgets idle connections (warning)

After net.netfilter.nf_conntrack_tcp_timeout_established seconds without a packet, the kernel
forgets a connection. A firewall that accepts only known connections then drops its packets, and the
store's connections of a long job hang. The kernel's default is 5 days.

**Prove:** sysctl net.netfilter.nf_conntrack_tcp_timeout_established net.ipv4.tcp_keepalive_time

**Fix:** sysctl -w net.netfilter.nf_conntrack_tcp_timeout_established=432000, or set
net.ipv4.tcp_keepalive_time to less than the timeout.

**Source:** nf_conntrack-sysctl.rst
"""

from __future__ import annotations

from collections.abc import Iterator

from fullmesh.causes.engine import Cause, CauseCase
from fullmesh.causes.evidence import ClusterEvidence
from fullmesh.result.findings import WARNING, Finding

TIMEOUT = "net.netfilter.nf_conntrack_tcp_timeout_established"
LOOSE = "net.netfilter.nf_conntrack_tcp_loose"
LEAST = 1800  # seconds: a step of a job, a checkpoint or a stalled rank takes that long
DEFAULT = 432000


def rule_tracking_timeout(evidence: ClusterEvidence) -> Iterator[Finding]:
    """Report nodes with a packet filter whose connection tracking forgets idle connections too soon."""
    for name in evidence.nodes:
        timeout = evidence.number(name, TIMEOUT)
        if timeout is None or timeout >= LEAST or not checks_connections(evidence, name):
            continue
        strict = ", and nf_conntrack_tcp_loose=0" if evidence.number(name, LOOSE) == 0 else ""
        yield Finding(
            "DG-195",
            "L1",
            f"connection tracking of {name} forgets a connection after {timeout} s without a packet",
            node=name,
            seen=f"{TIMEOUT}={timeout}{strict}",
            expected=f"at least {LEAST} s, as the default of {DEFAULT}",
            check=f"on {name}: grep -rs {TIMEOUT} /etc/sysctl.d /etc/sysctl.conf /usr/lib/sysctl.d",
            fix=f"on {name}: sysctl -w {TIMEOUT}={DEFAULT}",
            severity=WARNING,
        )


def checks_connections(evidence: ClusterEvidence, name: str) -> bool:
    """Return whether a rule of a node matches the state of connections. Otherwise, tracking stops no packet."""
    return any(
        isinstance(left := part.get("match", {}).get("left"), dict) and "ct" in left
        for chain in evidence.ruleset(name)["chains"].values()
        for rule in chain["rules"]
        for part in rule["expr"]
    )


CAUSE = Cause(
    "DG-195",
    __doc__,
    find=rule_tracking_timeout,
    needs=("sysctls",),
    severity=WARNING,
    weight=125,
    cases=(
        CauseCase("tracking-timeout", "nf_conntrack_tcp_timeout_established=60 beside a firewall"),
    ),
)
