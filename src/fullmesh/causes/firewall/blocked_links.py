"""Find the cause of each blocked link, with helpers for the causes of blocked links."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from fullmesh.causes.engine import load_causes
from fullmesh.causes.evidence import LEGACY, ClusterEvidence
from fullmesh.causes.firewall.blocking_rules import (
    BlockingRule,
    describe_direction,
    describe_peers,
    group_blocking_rules,
)
from fullmesh.causes.firewall.packet_filter import REJECT
from fullmesh.netfilter.ruleset import MatchValues
from fullmesh.observed.ladder import Verdict
from fullmesh.observed.ports import is_port_listed
from fullmesh.result.findings import Finding, join_names
from fullmesh.verify.blocked import (
    CODES_OF,
    SAID,
    STOPPED,
    describe_drop_place,
    suggest_link_steps,
)
from fullmesh.verify.probe_wants import HELD

# What a rich rule accepts, as firewalld writes it: firewalld.richlanguage(5).
RULE_SOURCE = re.compile(r'source (?:ipset="(?P<ipset>[^"]+)"|address="(?P<address>[^"]+)")')


RULE_PORT = re.compile(r'\bport port="(?P<ports>[0-9-]+)" protocol="tcp"')


EFA_VENDOR = "0x1d0f"  # Amazon, pci.ids


def make_block_finding(
    rule: BlockingRule, code: str, cause: str, fix: str, expected: str = "accepted"
) -> Finding:
    """Make a finding about the links that one rule blocks."""
    first, stop = rule.group[0], rule.stop
    if rule.too:
        ways = join_names([f"{source} -> {target}" for source, target in rule.too])
        cause = f"{cause}. It also stops packets of {ways}"
    shown = f"table {stop.table} chain {stop.chain}: {stop.text}" if stop.table else first.shown
    return Finding(
        code,
        "L2",
        cause,
        node=rule.node,
        peer=describe_peers(rule),
        port=first.ports,
        direction=describe_direction(rule),
        seen=shown,
        expected=expected,
        fix=fix,
        pairs=rule.pairs,
        kinds=rule.kinds,
    )


def suggest_legacy_removal(name: str, table: str, line: str) -> str:
    """Return the command that removes a rule of an old table, in the format of iptables."""
    family, word = table.split()[:2]
    tool = "ip6tables" if family == "ip6" else "iptables"
    return f"on {name}: {tool}-legacy -t {word} {line.replace('-A ', '-D ', 1)}"


def suggest_rule_removal(rule: BlockingRule) -> str:
    """Return the command that removes a rule."""
    stop = rule.stop
    if stop.table.endswith(LEGACY):
        return suggest_legacy_removal(
            rule.node, stop.table, stop.text if stop.text.startswith("-A ") else f"-S {stop.chain}"
        )
    if stop.handle:
        return f"on {rule.node}: nft delete rule {stop.table} {stop.chain} handle {stop.handle}"
    return (
        f"on {rule.node}: nft list chain {stop.table} {stop.chain}, then set 'policy accept' or "
        f"add a rule for the peers"
    )


def is_accepted_by_rich_rule(
    rules: Sequence[str], port: int, source: str, sets: Mapping[str, Sequence[str]]
) -> bool:
    """Return whether one of these rich rules accepts a TCP port from an address."""
    for rule in rules:
        who, what = RULE_SOURCE.search(rule), RULE_PORT.search(rule)
        if "accept" not in rule.split() or "NOT" in rule.split():
            continue
        if what and not is_port_listed([f"{what['ports']}/tcp"], port):
            continue
        if not what and re.search(r"\b(?:port|service|protocol|icmp-type) ", rule):
            continue
        named = sets.get(who["ipset"] or "", [who["address"] or ""]) if who else [source]
        if MatchValues(list(named)).holds(source):
            return True
    return False


def is_between_nodes(rule: BlockingRule) -> bool:
    """Return whether neither node stops the packets: they left one node and did not reach the other."""
    return rule.group[0].place.startswith("on_the_way") and not rule.stop.table


def describe_loss_between(rule: BlockingRule) -> str:
    """Describe the packets that did not reach the other node."""
    ends_of = {"source": join_names(sorted({b.source for b in rule.group}))}
    ends_of["target"] = join_names(sorted({b.target for b in rule.group}))
    return f"{describe_direction(rule)}: {STOPPED[rule.group[0].place].format(**ends_of)}"


def list_rule_ends(rule: BlockingRule) -> list[str]:
    """List the nodes at the ends of all links that a rule stops."""
    return sorted({end for b in rule.group for end in (b.source, b.target)})


def has_efa_ends(evidence: ClusterEvidence, rule: BlockingRule) -> bool:
    """Return whether all ends of the links have EFA devices."""
    return all(
        any(port["vendor"] == EFA_VENDOR for port in evidence.survey(end).get("rdma", []))
        for end in list_rule_ends(rule)
    )


def suggest_rule_fix(evidence: ClusterEvidence, rule: BlockingRule) -> str:
    """Return the fix for a rule of the node's only firewall."""
    if rule.stop.table.endswith(" firewalld") or not rule.stop.table:
        open_it = (
            f"on {rule.node}: firewall-cmd --permanent --zone={rule.stop.zone or 'ZONE'} "
            f"--add-port=…; firewall-cmd --reload"
        )
        return open_it if evidence.assumed else evidence.seen.apply("firewall")
    return suggest_rule_removal(rule)


def is_about_services(rule: BlockingRule) -> bool:
    """Return whether only ports of services are blocked."""
    kinds = set(rule.group[0].kinds)
    return bool(kinds) and not kinds - {"service", HELD}


def is_refused_by_kernel(rule: BlockingRule) -> bool:
    """Return whether the kernel itself refuses connections to a service's port, without a rule that sends resets."""
    first = rule.group[0]
    return set(first.kinds) == {HELD} and first.verdict == "refused" and not rule.stop.reset


def describe_link_verdict(rule: BlockingRule) -> tuple[Verdict, str]:
    """Return a link's verdict and its description.

    The kernel sends 6 ICMP errors to an address at once and then 1 per second (icmp_ratelimit).
    Errors for packets of the other direction count, too. A rule that rejects may therefore look
    like one that drops.
    """
    verdict, stop = rule.group[0].verdict, rule.stop
    silent = verdict == "dropped" and rule.packet.state == "new" and stop.table
    if silent and stop.verdict == REJECT and not stop.reset:
        return "rejected", "is rejected, although no ICMP answer came (the kernel limits them)"
    return verdict, SAID[verdict]


def explain_blocked_link(evidence: ClusterEvidence, rule: BlockingRule) -> Finding:
    """Describe a blocked link without a more specific cause: the node, the rule, and how far packets came."""
    first = rule.group[0]
    by_rule = ""
    if rule.stop.table:
        word = "The rule is" if rule.stop.sure else "A rule that does this to some packets is"
        by_rule = f". {word} in chain {rule.stop.chain} of table {rule.stop.table}"
    elif (
        first.place in AT_HOME
        and evidence.survey(rule.node).get("nft", {}).get("chains") is not None
    ):
        by_rule = ", and no nftables rule there does this"
    zone = f", zone {rule.stop.zone}" if rule.stop.zone else ""
    verdict, words = describe_link_verdict(rule)
    cause = f"{describe_direction(rule)} {words}{describe_drop_place(first)}{by_rule}{zone}"
    check, fix = suggest_link_steps(evidence.seen, first)
    if rule.stop.table:
        check, fix = "", suggest_rule_fix(evidence, rule)
    found = make_block_finding(rule, CODES_OF[verdict], cause, fix)
    shown = f"{first.shown}; {found.seen}" if rule.stop.table else first.shown
    return replace(found, seen=shown, expected="open", check=check)


AT_HOME = ("leaving", "target", "source")  # one of the two nodes stops the packets itself


def rule_blocked_links(evidence: ClusterEvidence) -> Iterator[Finding]:
    """Yield the deepest cause of every blocked link. The heaviest causes are tried first."""
    asked = [cause.explain_block for cause in load_causes("DG").values() if cause.explain_block]
    for rule in group_blocking_rules(evidence):
        named = (explain(evidence, rule) for explain in asked)
        yield next((found for found in named if found), None) or explain_blocked_link(
            evidence, rule
        )
