"""The master's name resolves to loopback on another node

A worker resolves the master's name to 127.x.x.x and looks for the store on itself. Its connection
is refused until the timeout, while rank 0 reports '1/2 clients joined'.

**Prove:** on the worker: getent ahosts MASTER

**Fix:** Remove the master's name from the loopback line of /etc/hosts, or use an address in
MASTER_ADDR.

**Source:** measured with torch 2.13
"""

from __future__ import annotations

from collections.abc import Iterator

from fullmesh.causes.addresses.master_address import find_master_address
from fullmesh.causes.engine import Cause, CauseCase, Explains
from fullmesh.causes.evidence import ClusterEvidence, has_loopback_prefix
from fullmesh.causes.relations import has_same_node
from fullmesh.result.findings import Finding, join_names


def rule_master_name(evidence: ClusterEvidence) -> Iterator[Finding]:
    """Find nodes on which the master's name resolves to loopback."""
    wanted = [
        n
        for h in evidence.plan["hosts"]
        if h["address"] == evidence.address(evidence.master)
        for n in h["names"]
    ]
    for name in evidence.nodes:
        if name == evidence.master:
            continue
        answers = evidence.seen.facts(name).get("names", {}).get("plan", {})
        astray = {
            n: found for n in wanted if (found := answers.get(n)) and has_loopback_prefix(found[0])
        }
        wrong = list(astray)
        if wrong:
            yield Finding(
                "DG-124",
                "L1",
                f"the master's name {wrong[0]} resolves to loopback on {name}, so its ranks would look "
                f"for the store on their own node",
                node=name,
                peer=evidence.master,
                seen=f"{wrong[0]}: {join_names(astray[wrong[0]])}",
                expected=f"{wrong[0]}: {evidence.address(evidence.master)}",
                fix=f"on {name}: take {wrong[0]} out of the loopback line in /etc/hosts (getent ahosts {wrong[0]})",
            )


def rule_master_loopback(evidence: ClusterEvidence) -> Iterator[Finding]:
    """Find workers on which MASTER_ADDR is a name that resolves to loopback."""
    yield from find_master_address(evidence, "DG-124")


def rule_any_master_loopback(evidence: ClusterEvidence) -> Iterator[Finding]:
    """Find both kinds of names that resolve to loopback."""
    yield from rule_master_name(evidence)
    yield from rule_master_loopback(evidence)


CAUSE = Cause(
    "DG-124",
    __doc__,
    find=rule_any_master_loopback,
    weight=620,
    explains=(
        Explains(("VC-101", "DG-126", "DG-127"), has_same_node),
        Explains(("VC-324",), has_same_node),
    ),
    cases=(CauseCase("master-loopback", "127.0.0.1 MASTERNAME first in a worker's /etc/hosts"),),
)
