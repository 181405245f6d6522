"""Who shuts a link: which rule, which table, which zone, or something between the nodes."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from fullmesh.causes.evidence import ClusterEvidence
from fullmesh.diagnose import packet_filter
from fullmesh.diagnose.blocking_rules import (
    BlockingRule,
    describe_direction,
    describe_peers,
    group_blocking_rules,
)
from fullmesh.diagnose.packet_filter import REJECT, VERBS, PacketVerdict
from fullmesh.netfilter.evaluator import ARP, Packet
from fullmesh.netfilter.ruleset import MatchValues
from fullmesh.observed.ladder import Verdict
from fullmesh.observed.ports import is_port_listed
from fullmesh.result.findings import Finding, join_names
from fullmesh.verify.blocked import (
    CODES_OF,
    DATA_KINDS,
    SAID,
    STOPPED,
    describe_drop_place,
    list_blocked_links,
    suggest_link_fix,
)
from fullmesh.verify.probe_wants import HELD

# What a rich rule accepts, as firewalld writes it: firewalld.richlanguage(5).
RULE_SOURCE = re.compile(r'source (?:ipset="(?P<ipset>[^"]+)"|address="(?P<address>[^"]+)")')
RULE_PORT = re.compile(r'\bport port="(?P<ports>[0-9-]+)" protocol="tcp"')
EFA_VENDOR = "0x1d0f"  # Amazon, pci.ids


def make_block_finding(
    rule: BlockingRule, code: str, cause: str, fix: str, expected: str = "accepted"
) -> Finding:
    """A finding about what one rule stops."""
    first, stop = rule.group[0], rule.stop
    if rule.too:
        ways = join_names([f"{source} -> {target}" for source, target in rule.too])
        cause = f"{cause}; it stops packets of {ways} as well"
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


def find_arp_stops(
    look: ClusterEvidence, source: str, target: str
) -> Iterator[tuple[str, PacketVerdict]]:
    """The rules of the two nodes that stop who-has and its answer, those that do for certain first."""
    ends = (look.address(source), look.address(target))
    perhaps = []
    for name in (source, target):
        card, rules = look.cluster_card(name), look.ruleset(name)
        for outgoing in (True, False):
            packet = Packet(ARP, *ends, "", 0, card, outgoing)
            stop = packet_filter.evaluate_packet(rules, packet)
            if stop.verdict != packet_filter.ACCEPT:
                yield name, stop
            perhaps += [(name, one) for one in packet_filter.find_possible_stops(rules, packet)]
    yield from perhaps


def rule_blocked_arp(look: ClusterEvidence) -> Iterator[Finding]:
    """Nobody answers ARP on a link, and a rule of one of its nodes stops it: a chain at the card, or of family arp.

    Rules for TCP never see it, so whose rule it is, neither the probe's packets nor their absence tell.
    """
    found: dict[tuple[str, str, str, int], tuple[PacketVerdict, list[tuple[str, str]]]] = {}
    for source, target in list_unresolved_links(look):
        for name, stop in find_arp_stops(look, source, target):
            key = (name, stop.table, stop.chain, stop.handle)
            found.setdefault(key, (stop, []))[1].append((source, target))
            break
    for (name, _, _, _), (stop, pairs) in found.items():
        peers = sorted({end for pair in pairs for end in pair} - {name})
        place = f"{stop.table} {stop.chain}"
        verb = VERBS.get(stop.verdict, "drops")
        yield Finding(
            "DG-187",
            "L2",
            f"a rule of {name} {verb if stop.sure else f'may be what {verb}'} ARP between it and {join_names(peers)}, "
            "so"
            " neither finds the other's card",
            node=name,
            peer=join_names(peers),
            direction=f"{name} <-> {join_names(peers)}",
            seen=f"table {stop.table} chain {stop.chain}: {stop.text}",
            expected="ARP passes",
            fix=f"on {name}: nft delete rule {place} handle {stop.handle}"
            if stop.handle
            else f"on {name}: nft list chain {place}, and give it 'policy accept' or a rule for ARP",
            pairs=tuple(pairs),
        )


def list_unresolved_links(look: ClusterEvidence) -> list[tuple[str, str]]:
    """The links on which the peer's address was asked for and nobody answered."""
    return [
        (block.source, block.target)
        for block in list_blocked_links(look.seen)
        if block.verdict == "no_route"
        and look.plan["family"] != "ipv6"
        and any(
            one["neighbour"] == "failed"
            for one in look.records(block.source)
            if one["node"] == block.target and one["verdict"] == "no_route"
        )
    ]


def suggest_rule_removal(rule: BlockingRule) -> str:
    """The command that takes a rule away."""
    stop = rule.stop
    if stop.handle:
        return f"on {rule.node}: nft delete rule {stop.table} {stop.chain} handle {stop.handle}"
    return (
        f"on {rule.node}: nft list chain {stop.table} {stop.chain}, and give it 'policy accept' or "
        f"a rule for the peers"
    )


def find_accepting_table(look: ClusterEvidence, rule: BlockingRule) -> str:
    """The table that accepts the packet beside the one that stops it, "" when there is none."""
    if not rule.stop.table:
        return ""
    rules = look.ruleset(rule.node)
    names = [
        name
        for name in packet_filter.list_deciding_tables(rules, rule.packet)
        if name != rule.stop.table
    ]
    return next(
        (name for name in names if packet_filter.is_accepted_by_table(rules, rule.packet, name)), ""
    )


def explain_second_table(look: ClusterEvidence, rule: BlockingRule) -> Finding | None:
    """Rules beside the node's firewall: an accept in one table does not save from a drop in another."""
    other = find_accepting_table(look, rule)
    if not other or rule.stop.table.endswith(" firewalld"):
        return None
    verb, ports = VERBS[rule.stop.verdict], rule.group[0].ports
    text = (
        f"the table {rule.stop.table} on {rule.node} {verb} what {describe_direction(rule)} sends to {ports},"
        f" although {other} is the node's firewall"
    )
    return make_block_finding(
        rule,
        "DG-113",
        text,
        f"{suggest_rule_removal(rule)}; find who loads it: grep -r {rule.stop.table.split()[-1]} /etc",
    )


def is_accepted_by_rich_rule(
    rules: Sequence[str], port: int, source: str, sets: Mapping[str, Sequence[str]]
) -> bool:
    """Whether a rich rule of these accepts a TCP port from an address."""
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


def explain_unused_policy(
    look: ClusterEvidence, rule: BlockingRule, zone: str
) -> tuple[str, Finding] | None:
    """A policy that opens the port to the sender, and is not asked for what comes through the packet's zone."""
    held = look.survey(rule.node).get("firewalld", {})
    for name, both in held.get("policies", {}).items():
        now = both["runtime"]
        fits = {"ANY", zone} & set(now["ingress"]) and "HOST" in now["egress"]
        wanted = is_accepted_by_rich_rule(
            now["rules"], rule.port, rule.packet.saddr, held.get("ipsets", {})
        )
        if wanted and not fits:
            bound = join_names(now["ingress"]) or "none"
            text = (
                f"the packets of {describe_direction(rule)} come through firewalld's zone {zone} on {rule.node}, "
                "which does not"
                f" open {rule.group[0].ports}; policy {name} does, and it is asked for other zones ({bound})"
            )
            fix = (
                f"{look.seen.apply('firewall')}; by hand on {rule.node}: firewall-cmd --permanent --policy={name} "
                f"--add-ingress-zone={zone}; firewall-cmd --reload"
            )
            if look.assumed:
                fix = fix.partition("by hand ")[2]
            return name, make_block_finding(rule, "DG-114", text, fix, f"policy {name}")
    return None


def explain_wrong_zone(look: ClusterEvidence, rule: BlockingRule) -> Finding | None:
    """The packet came through a zone that does not open its port, while another zone or an unasked policy does."""
    held = look.survey(rule.node).get("firewalld", {})
    zone = rule.stop.zone or held.get("default", "")
    if not rule.stop.table.endswith(" firewalld") or not zone:
        return None
    zones = held.get("zones", {})
    better = [
        name
        for name, both in zones.items()
        if name != zone
        and any(
            side and is_port_listed(side["ports"], rule.port)
            for side in (both["runtime"], both["permanent"])
        )
    ]
    if zone in zones and is_port_listed(zones[zone]["runtime"]["ports"], rule.port):
        return None
    passed = explain_unused_policy(look, rule, zone)
    if passed or not better:
        return passed[1] if passed else None
    text = (
        f"the packets of {describe_direction(rule)} come through firewalld's zone {zone} on {rule.node}, which does "
        "not open"
        f" {rule.group[0].ports}; zone {better[0]} does"
    )
    sources = " ".join(look.address(b.source) for b in rule.group)
    fix = (
        f"{look.seen.apply('firewall')}; by hand on {rule.node}: firewall-cmd --zone={better[0]} "
        f"--add-source=ADDRESS for {sources}"
    )
    if look.assumed:
        fix = fix.partition("by hand ")[2]
    return make_block_finding(rule, "DG-114", text, fix, f"zone {better[0]}")


def explain_network_block(look: ClusterEvidence, rule: BlockingRule) -> Finding | None:
    """Nothing of the two nodes stops it: it left one and never came to the other."""
    first = rule.group[0]
    if not first.place.startswith("on_the_way") or rule.stop.table:
        return None
    ends = sorted({end for b in rule.group for end in (b.source, b.target)})
    efa = all(
        any(port["vendor"] == EFA_VENDOR for port in look.survey(end).get("rdma", []))
        for end in ends
    )
    ends_of = {"source": join_names(sorted({b.source for b in rule.group}))}
    ends_of["target"] = join_names(sorted({b.target for b in rule.group}))
    text = f"{describe_direction(rule)}: {STOPPED[first.place].format(**ends_of)}"
    data = look.plan["data_ports"]["firewalld"]
    fix = (
        f"allow tcp {data} and the named ports between the nodes in the network (switch ACL, cloud "
        f"security group), both ways"
    )
    if efa:
        fix = "let the security group allow all traffic to and from itself, by its own id, in both directions"
        text += " (both have EFA devices)"
    return make_block_finding(rule, "DG-116" if efa else "DG-115", text, fix)


def explain_rdma_block(look: ClusterEvidence, rule: BlockingRule) -> Finding | None:
    """RDMA jobs need the TCP range, too: NCCL exchanges its RDMA addresses over TCP."""
    ends = sorted({end for b in rule.group for end in (b.source, b.target)})
    up = all(any(p["state"] == "ACTIVE" for p in look.survey(end).get("rdma", [])) for end in ends)
    if not up or not set(rule.group[0].kinds) & set(DATA_KINDS):
        return None
    text = (
        f"RDMA is up on {join_names(ends)}, and {describe_direction(rule)} is shut for {rule.group[0].ports}, which "
        "NCCL needs to"
        " set RDMA up"
    )
    return make_block_finding(rule, "DG-117", text, suggest_rule_fix(look, rule))


def suggest_rule_fix(look: ClusterEvidence, rule: BlockingRule) -> str:
    """What fixes a rule of the node's only firewall."""
    if rule.stop.table.endswith(" firewalld") or not rule.stop.table:
        open_it = (
            f"on {rule.node}: firewall-cmd --permanent --zone={rule.stop.zone or 'ZONE'} "
            f"--add-port=…; firewall-cmd --reload"
        )
        return open_it if look.assumed else look.seen.apply("firewall")
    return suggest_rule_removal(rule)


def format_port_stretches(ports: Sequence[tuple[int, bool]]) -> str:
    """``50000-51000 open, 51001-54095 shut``, from ports that were tried."""
    found: list[list[int | bool]] = []
    for port, good in sorted(ports):
        if found and found[-1][2] is good:
            found[-1][1] = port
        else:
            found.append([port, port, good])
    return ", ".join(
        f"{first}-{last} {'open' if good else 'shut'}" for first, last, good in found[:8]
    )


def explain_partial_range(look: ClusterEvidence, rule: BlockingRule) -> Finding | None:
    """A part of the range is shut: jobs fail now and then."""
    first = rule.group[0]
    data = look.plan["data_ports"]
    tried = [
        (r["port"], r["verdict"] == "open")
        for r in look.records(first.source)
        if r["node"] == first.target
        and r["kind"] in DATA_KINDS
        and data["first"] <= r["port"] <= data["last"]
    ]
    if len({good for _, good in tried}) != 2:  # noqa: PLR2004 (open and shut)
        return None
    # it stops some packets of any port, so the next try would show another picture
    if not rule.stop.sure or first.place == "by_chance":
        return None
    text = (
        f"{rule.node} lets {describe_direction(rule)} through to a part of the data range only: "
        f"{format_port_stretches(tried)}"
    )
    found = make_block_finding(
        rule, "DG-101", text, suggest_rule_fix(look, rule), f"{data['firewalld']}/tcp open"
    )
    return replace(found, seen=f"{format_port_stretches(tried)}; {found.seen}")


def explain_named_ports(look: ClusterEvidence, rule: BlockingRule) -> Finding | None:
    """Only the store's or the rendezvous' port is shut."""
    first = rule.group[0]
    if not first.kinds or set(first.kinds) & set(DATA_KINDS):
        return None
    verb = {"dropped": "drops", "rejected": "rejects", "refused": "resets"}[
        describe_link_verdict(rule)[0]
    ]
    text = f"{rule.node} {verb} {first.ports} for {describe_direction(rule)}, so no job of several nodes can start"
    return make_block_finding(rule, "DG-105", text, suggest_rule_fix(look, rule))


def explain_service_ports(look: ClusterEvidence, rule: BlockingRule) -> Finding | None:
    """Only ports of services are shut: a firewall's rule, or a service that listens on another address."""
    first, kinds = rule.group[0], set(rule.group[0].kinds)
    if not kinds or kinds - {"service", HELD}:
        return None
    address = look.address(first.target)
    # the kernel's own answer: no rule is met that does anything else than reset
    if kinds == {HELD} and first.verdict == "refused" and not rule.stop.reset:
        text = f"{first.ports} of {first.target} is taken, and nothing listens there on {address}"
        fix = (
            f"on {first.target}: ss -ltnp; let the service listen on {address}, or on every address"
        )
        return replace(
            make_block_finding(rule, "DG-275", text, fix, f"a listener on {address}"),
            node=first.target,
        )
    verb = {"dropped": "drops", "rejected": "rejects", "refused": "resets"}[
        describe_link_verdict(rule)[0]
    ]
    text = f"{rule.node} {verb} {first.ports} for {describe_direction(rule)}; torch's own ports are open"
    return make_block_finding(rule, "DG-175", text, suggest_rule_fix(look, rule))


def describe_link_verdict(rule: BlockingRule) -> tuple[Verdict, str]:
    """What a link meets, and how that is said.

    The kernel sends an address six ICMP answers at once and then one a second (icmp_ratelimit), and the answers to the
    other direction's packets count, too. So a rule that rejects may look like one that drops.
    """
    verdict, stop = rule.group[0].verdict, rule.stop
    silent = verdict == "dropped" and rule.packet.state == "new" and stop.table
    if silent and stop.verdict == REJECT and not stop.reset:
        return "rejected", "is rejected, although no ICMP answer came (the kernel limits them)"
    return verdict, SAID[verdict]


def explain_blocked_link(look: ClusterEvidence, rule: BlockingRule) -> Finding:
    """A shut link that has no better name: who stops it, with which rule, and how far the packets came."""
    first = rule.group[0]
    by_rule = ""
    if rule.stop.table:
        word = "the rule is" if rule.stop.sure else "a rule that does so to some packets is"
        by_rule = f"; {word} in chain {rule.stop.chain} of table {rule.stop.table}"
    elif first.place in AT_HOME and look.survey(rule.node).get("nft", {}).get("chains") is not None:
        by_rule = "; no rule of nftables there does so"
    zone = f", zone {rule.stop.zone}" if rule.stop.zone else ""
    verdict, words = describe_link_verdict(rule)
    cause = f"{describe_direction(rule)} {words}{describe_drop_place(first)}{by_rule}{zone}"
    found = make_block_finding(
        rule,
        CODES_OF[verdict],
        cause,
        suggest_rule_fix(look, rule) if rule.stop.table else suggest_link_fix(look.seen, first),
    )
    shown = f"{first.shown}; {found.seen}" if rule.stop.table else first.shown
    return replace(found, seen=shown, expected="open")


AT_HOME = ("leaving", "target", "source")  # one of the two nodes stops the packets itself
CAUSES = (
    explain_network_block,
    explain_second_table,
    explain_wrong_zone,
    explain_rdma_block,
    explain_partial_range,
    explain_service_ports,
    explain_named_ports,
)


def rule_blocked_links(look: ClusterEvidence) -> Iterator[Finding]:
    """The deepest cause of every shut link."""
    for rule in group_blocking_rules(look):
        named = (cause(look, rule) for cause in CAUSES)
        yield next((found for found in named if found), None) or explain_blocked_link(look, rule)


RULES = (rule_blocked_links, rule_blocked_arp)
