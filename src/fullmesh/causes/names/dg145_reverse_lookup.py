"""Reverse lookups of peers hang

TCPStore looks up the name of every client that connects, one after the other. If a name server does
not reply, each lookup takes seconds and start-up is slow: 'hostname of the client socket cannot be
retrieved'.

**Prove:** time getent hosts PEER

**Fix:** Add the peers to /etc/hosts, or fix /etc/resolv.conf.

**Source:** pytorch#159007
"""

from __future__ import annotations

from collections.abc import Iterator

from fullmesh.causes.engine import Cause, CauseCase, Explains
from fullmesh.causes.evidence import ClusterEvidence
from fullmesh.causes.relations import NAMED, has_same_node
from fullmesh.result.findings import Finding, join_names

SLOW = 2.0  # seconds; TCPStore looks every client up, one after the other (pytorch#159007)


def rule_reverse_lookup(evidence: ClusterEvidence) -> Iterator[Finding]:
    """Find slow reverse lookups: TCPStore looks up every peer and waits for a silent name server."""
    for name in evidence.nodes:
        asked = evidence.survey(name).get("reverse", {})
        slow = [a for a, said in asked.items() if said is None or said["seconds"] >= SLOW]
        if not slow:
            continue
        first = asked[slow[0]]
        took = "no answer in time" if first is None else f"{first['seconds']:.1f} s"
        yield Finding(
            "DG-145",
            "L1",
            f"reverse lookups on {name} hang: its name server does not answer",
            node=name,
            peer=join_names([n for n in evidence.plan["nodes"] if evidence.address(n) in slow]),
            seen=f"{slow[0]}: {took}",
            expected=f"an answer, also 'unknown', within {SLOW:g} s",
            fix=f"on {name}: put the peers into /etc/hosts, or fix /etc/resolv.conf (getent hosts {slow[0]})"
            + ("" if evidence.assumed else f"; {evidence.seen.apply('network')}"),
        )


CAUSE = Cause(
    "DG-145",
    __doc__,
    find=rule_reverse_lookup,
    needs=("reverse",),
    weight=660,
    explains=(Explains(NAMED, has_same_node),),
    cases=(
        CauseCase("dns-black-hole", "nameserver SILENT in resolv.conf, no peers in /etc/hosts"),
    ),
)
