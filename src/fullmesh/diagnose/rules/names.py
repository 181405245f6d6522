"""Names: a node's own, the master's, and how long a reverse lookup takes."""

from __future__ import annotations

from collections.abc import Iterator

from fullmesh.causes.evidence import ClusterEvidence, has_loopback_prefix
from fullmesh.result.findings import Finding, join_names

SLOW = 2.0  # seconds; TCPStore looks every client up, one after the other (pytorch#159007)


def rule_own_host_name(look: ClusterEvidence) -> Iterator[Finding]:
    """A node's own name leads to an address of the node, not to what some DNS remembers."""
    for name in look.nodes:
        found = look.survey(name).get("own_answers", [])
        if not found or any(has_loopback_prefix(a) or look.holds(name, a) for a in found):
            continue
        hostname = look.seen.facts(name).get("names", {}).get("hostname", name)
        yield Finding(
            "DG-123",
            "L1",
            f"{name}'s own host name {hostname} leads to an address that {name} does not have",
            node=name,
            seen=join_names(found),
            expected=look.address(name),
            fix=f"on {name}: put '{look.address(name)} {hostname}' into /etc/hosts; then: getent ahosts {hostname}",
        )


def rule_master_name(look: ClusterEvidence) -> Iterator[Finding]:
    """The master's name does not lead to loopback on the other nodes."""
    wanted = [
        n
        for h in look.plan["hosts"]
        if h["address"] == look.address(look.master)
        for n in h["names"]
    ]
    for name in look.nodes:
        if name == look.master:
            continue
        answers = look.seen.facts(name).get("names", {}).get("plan", {})
        astray = {
            n: found for n in wanted if (found := answers.get(n)) and has_loopback_prefix(found[0])
        }
        wrong = list(astray)
        if wrong:
            yield Finding(
                "DG-124",
                "L1",
                f"the master's name {wrong[0]} leads to loopback on {name}, so its ranks would look "
                f"for the store at home",
                node=name,
                peer=look.master,
                seen=f"{wrong[0]}: {join_names(astray[wrong[0]])}",
                expected=f"{wrong[0]}: {look.address(look.master)}",
                fix=f"on {name}: take {wrong[0]} off the loopback line in /etc/hosts (getent ahosts {wrong[0]})",
            )


def rule_reverse_lookup(look: ClusterEvidence) -> Iterator[Finding]:
    """Reverse lookups end at once: TCPStore asks for every peer and waits for a silent name server."""
    for name in look.nodes:
        asked = look.survey(name).get("reverse", {})
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
            peer=join_names([n for n in look.plan["nodes"] if look.address(n) in slow]),
            seen=f"{slow[0]}: {took}",
            expected=f"an answer, also 'unknown', within {SLOW:g} s",
            fix=f"on {name}: put the peers into /etc/hosts, or fix /etc/resolv.conf (getent hosts {slow[0]})"
            + ("" if look.assumed else f"; {look.seen.apply('network')}"),
        )


RULES = (rule_own_host_name, rule_master_name, rule_reverse_lookup)
