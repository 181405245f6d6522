"""Who shuts a link: which rule, which table, which zone, or something between the nodes."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from fullmesh.diagnose import packet_filter
from fullmesh.diagnose.model import Look
from fullmesh.diagnose.packet_filter import ACCEPT, REJECT, VERBS, Stop, answer, tcp
from fullmesh.netfilter.evaluator import Packet
from fullmesh.netfilter.ruleset import Values
from fullmesh.observed.ladder import Verdict
from fullmesh.observed.ports import KERNEL_RANGE, opens
from fullmesh.verify.model import WARNING, Finding, in_words
from fullmesh.verify.pairs import (
    CODES_OF,
    DATA_KINDS,
    FIREWALLED,
    SAID,
    STOPPED,
    Blocked,
    blocked_pairs,
    mend,
    merged,
    where,
)

Both = Mapping[str, Any]  # of a zone or a policy: what runs and what is kept
# What a rich rule accepts, as firewalld writes it: firewalld.richlanguage(5).
RULE_SOURCE = re.compile(r'source (?:ipset="(?P<ipset>[^"]+)"|address="(?P<address>[^"]+)")')
RULE_PORT = re.compile(r'\bport port="(?P<ports>[0-9-]+)" protocol="tcp"')
EFA_VENDOR = "0x1d0f"  # Amazon, pci.ids
PORTS_TRIED = 6  # shut ports of a link that are sent through the rules on paper


@dataclass(frozen=True)
class Wall:
    """Links that are shut by one rule, or in one way when no rule is known.

    Attributes:
        group: the links whose first packet is stopped; the finding's direction.
        node: who stops them.
        stop: the rule; an accepting one when none of the two nodes' rules does it.
        packet: that was stopped.
        answers: links the other way round whose answers the same rule stops.
    """

    group: tuple[Blocked, ...]
    node: str
    stop: Stop
    packet: Packet
    answers: tuple[Blocked, ...] = ()

    @property
    def pairs(self) -> tuple[tuple[str, str], ...]:
        """Which links."""
        return tuple((b.source, b.target) for b in (*self.group, *self.answers))

    @property
    def kinds(self) -> tuple[str, ...]:
        """Which kinds of listeners."""
        return tuple(sorted({k for b in (*self.group, *self.answers) for k in b.kinds}))

    @property
    def port(self) -> int:
        """The port of a listener that could not be reached."""
        return self.packet.sport or self.packet.dport


def shut_ports(look: Look, block: Blocked) -> list[int]:
    """The ports of a link that are shut in this way."""
    return [
        r["port"]
        for r in look.records(block.source)
        if r["node"] == block.target and r["verdict"] != "open" and r["kind"] != "outside"
    ]


def packets(look: Look, block: Blocked) -> list[tuple[str, Packet]]:
    """The packets of connections that failed, at the nodes whose rules they meet, the likeliest first."""
    source, target = look.address(block.source), look.address(block.target)
    cards = {name: look.cluster_card(name) for name in (block.source, block.target)}
    own = look.port_range(block.source) or KERNEL_RANGE
    found: dict[str, list[tuple[str, Packet]]] = {
        "target": [],
        "leaving": [],
        "back": [],
        "source": [],
    }
    for port in shut_ports(look, block)[:PORTS_TRIED]:
        to_target = tcp(source, target, port, cards[block.target])
        found["target"].append((block.target, to_target))
        leaving = tcp(source, target, port, cards[block.source], outgoing=True)
        found["leaving"].append((block.source, leaving))
        for back in {own.first, (own.first + own.last) // 2, own.last}:
            found["back"].append((block.target, answer(to_target, back)))
            found["source"].append((block.source, answer(leaving, back)))
    first = block.place if block.place in found else "target"
    return [one for key in (first, *(k for k in found if k != first)) for one in found[key]]


def stop_of(look: Look, block: Blocked) -> Wall:
    """Who stops a link; an accepting rule when none of the two nodes' rules does."""
    tried = packets(look, block)
    if not block.place.startswith("on_the_way"):  # then the taps have seen that no node does it
        for node, packet in tried:
            stop = packet_filter.send(look.ruleset(node), packet)
            if stop.verdict != ACCEPT:
                return Wall((block,), node, stop, packet)
    packet = tried[0][1] if tried else tcp("", "", 0, "")
    return Wall((block,), block.culprit, Stop(ACCEPT), packet)


def asked_in_vain(look: Look, block: Blocked, wall: Wall) -> list[Wall]:
    """Where one rule stops the answers on a link, one of the other node may stop what is asked, on other ports."""
    if not wall.stop.table or wall.packet.state == "new":
        return []
    for node, packet in packets(look, block):
        if packet.state == "new" and node != wall.node:
            stop = packet_filter.send(look.ruleset(node), packet)
            if stop.verdict != ACCEPT and stop.table:
                return [Wall((block,), node, stop, packet)]
    return []


def walls(look: Look) -> list[Wall]:
    """All shut links, those of one rule together."""
    shut = [b for b in blocked_pairs(look.seen) if b.verdict in FIREWALLED]
    by_rule: dict[tuple[object, ...], list[Wall]] = {}
    found: list[Wall] = []
    unknown: list[Blocked] = []
    for block in shut:
        first = stop_of(look, block)
        if not first.stop.table:
            unknown.append(block)
            continue
        for wall in (first, *asked_in_vain(look, block, first)):
            key = (wall.node, wall.stop.table, wall.stop.chain, wall.stop.handle)
            by_rule.setdefault(key, []).append(wall)
    for held in by_rule.values():
        found.append(together(held))
    for group in merged(unknown):
        found.append(replace(stop_of(look, group[0]), group=tuple(group)))
    return found


def together(held: Sequence[Wall]) -> Wall:
    """One wall of several links that one rule stops; answers that it stops as well come second."""
    asked = [wall for wall in held if wall.packet.state == "new"]
    first = (asked or held)[0]
    group = tuple(wall.group[0] for wall in asked or held)
    rest = tuple(wall.group[0] for wall in held if wall.group[0] not in group)
    return replace(first, group=group, answers=rest)


def direction(wall: Wall) -> str:
    """Who connects to whom."""
    sources = sorted({b.source for b in wall.group})
    targets = sorted({b.target for b in wall.group})
    return f"{in_words(sources)} -> {in_words(targets)}"


def others(wall: Wall) -> str:
    """The other ends."""
    ends = {end for b in wall.group for end in (b.source, b.target)}
    return in_words(sorted(ends - {wall.node}))


def told(wall: Wall, code: str, cause: str, fix: str, expected: str = "accepted") -> Finding:
    """A finding about a wall."""
    first, stop = wall.group[0], wall.stop
    rule = f"table {stop.table} chain {stop.chain}: {stop.text}" if stop.table else first.shown
    return Finding(
        code,
        "L2",
        cause,
        node=wall.node,
        peer=others(wall),
        port=first.ports,
        direction=direction(wall),
        seen=rule,
        expected=expected,
        fix=fix,
        pairs=wall.pairs,
        kinds=wall.kinds,
    )


def removal(wall: Wall) -> str:
    """The command that takes a rule away."""
    stop = wall.stop
    if stop.handle:
        return f"on {wall.node}: nft delete rule {stop.table} {stop.chain} handle {stop.handle}"
    return (
        f"on {wall.node}: nft list chain {stop.table} {stop.chain}, and give it 'policy accept' or "
        f"a rule for the peers"
    )


def beside(look: Look, wall: Wall) -> str:
    """The table that accepts the packet beside the one that stops it, "" when there is none."""
    if not wall.stop.table:
        return ""
    rules = look.ruleset(wall.node)
    names = [name for name in packet_filter.tables(rules, wall.packet) if name != wall.stop.table]
    return next((name for name in names if packet_filter.accepts(rules, wall.packet, name)), "")


def second_table(look: Look, wall: Wall) -> Finding | None:
    """Rules beside the node's firewall: an accept in one table does not save from a drop in another."""
    other = beside(look, wall)
    if not other or wall.stop.table.endswith(" firewalld"):
        return None
    verb, ports = VERBS[wall.stop.verdict], wall.group[0].ports
    text = (
        f"the table {wall.stop.table} on {wall.node} {verb} what {direction(wall)} sends to {ports},"
        f" although {other} is the node's firewall"
    )
    return told(
        wall,
        "DG-113",
        text,
        f"{removal(wall)}; find who loads it: grep -r {wall.stop.table.split()[-1]} /etc",
    )


def lets_in(
    rules: Sequence[str], port: int, source: str, sets: Mapping[str, Sequence[str]]
) -> bool:
    """Whether a rich rule of these accepts a TCP port from an address."""
    for rule in rules:
        who, what = RULE_SOURCE.search(rule), RULE_PORT.search(rule)
        if "accept" not in rule.split() or "NOT" in rule.split():
            continue
        if what and not opens([f"{what['ports']}/tcp"], port):
            continue
        if not what and re.search(r"\b(?:port|service|protocol|icmp-type) ", rule):
            continue
        named = sets.get(who["ipset"] or "", [who["address"] or ""]) if who else [source]
        if Values(list(named)).holds(source):
            return True
    return False


def past_policy(look: Look, wall: Wall, zone: str) -> tuple[str, Finding] | None:
    """A policy that opens the port to the sender, and is not asked for what comes through the packet's zone."""
    held = look.survey(wall.node).get("firewalld", {})
    for name, both in held.get("policies", {}).items():
        now = both["runtime"]
        fits = {"ANY", zone} & set(now["ingress"]) and "HOST" in now["egress"]
        wanted = lets_in(now["rules"], wall.port, wall.packet.saddr, held.get("ipsets", {}))
        if wanted and not fits:
            bound = in_words(now["ingress"]) or "none"
            text = (
                f"the packets of {direction(wall)} come through firewalld's zone {zone} on {wall.node}, which does not"
                f" open {wall.group[0].ports}; policy {name} does, and it is asked for other zones ({bound})"
            )
            fix = (
                f"{look.seen.apply('firewall')}; by hand on {wall.node}: firewall-cmd --permanent --policy={name} "
                f"--add-ingress-zone={zone}; firewall-cmd --reload"
            )
            if look.assumed:
                fix = fix.partition("by hand ")[2]
            return name, told(wall, "DG-114", text, fix, f"policy {name}")
    return None


def in_zone(look: Look, wall: Wall) -> Finding | None:
    """The packet came through a zone that does not open its port, while another zone or an unasked policy does."""
    held = look.survey(wall.node).get("firewalld", {})
    zone = wall.stop.zone or held.get("default", "")
    if not wall.stop.table.endswith(" firewalld") or not zone:
        return None
    zones = held.get("zones", {})
    better = [
        name
        for name, both in zones.items()
        if name != zone
        and any(
            side and opens(side["ports"], wall.port)
            for side in (both["runtime"], both["permanent"])
        )
    ]
    if zone in zones and opens(zones[zone]["runtime"]["ports"], wall.port):
        return None
    passed = past_policy(look, wall, zone)
    if passed or not better:
        return passed[1] if passed else None
    text = (
        f"the packets of {direction(wall)} come through firewalld's zone {zone} on {wall.node}, which does not open"
        f" {wall.group[0].ports}; zone {better[0]} does"
    )
    sources = " ".join(look.address(b.source) for b in wall.group)
    fix = (
        f"{look.seen.apply('firewall')}; by hand on {wall.node}: firewall-cmd --zone={better[0]} "
        f"--add-source=ADDRESS for {sources}"
    )
    if look.assumed:
        fix = fix.partition("by hand ")[2]
    return told(wall, "DG-114", text, fix, f"zone {better[0]}")


def on_the_way(look: Look, wall: Wall) -> Finding | None:
    """Nothing of the two nodes stops it: it left one and never came to the other."""
    first = wall.group[0]
    if not first.place.startswith("on_the_way") or wall.stop.table:
        return None
    ends = sorted({end for b in wall.group for end in (b.source, b.target)})
    efa = all(
        any(port["vendor"] == EFA_VENDOR for port in look.survey(end).get("rdma", []))
        for end in ends
    )
    ends_of = {"source": in_words(sorted({b.source for b in wall.group}))}
    ends_of["target"] = in_words(sorted({b.target for b in wall.group}))
    text = f"{direction(wall)}: {STOPPED[first.place].format(**ends_of)}"
    data = look.plan["data_ports"]["firewalld"]
    fix = (
        f"allow tcp {data} and the named ports between the nodes in the network (switch ACL, cloud "
        f"security group), both ways"
    )
    if efa:
        fix = "let the security group allow all traffic to and from itself, by its own id, in both directions"
        text += " (both have EFA devices)"
    return told(wall, "DG-116" if efa else "DG-115", text, fix)


def beside_rdma(look: Look, wall: Wall) -> Finding | None:
    """RDMA jobs need the TCP range, too: NCCL exchanges its RDMA addresses over TCP."""
    ends = sorted({end for b in wall.group for end in (b.source, b.target)})
    up = all(any(p["state"] == "ACTIVE" for p in look.survey(end).get("rdma", [])) for end in ends)
    if not up or not set(wall.group[0].kinds) & set(DATA_KINDS):
        return None
    text = (
        f"RDMA is up on {in_words(ends)}, and {direction(wall)} is shut for {wall.group[0].ports}, which NCCL needs to"
        " set RDMA up"
    )
    return told(wall, "DG-117", text, mending(look, wall))


def mending(look: Look, wall: Wall) -> str:
    """What mends a rule of the node's only firewall."""
    if wall.stop.table.endswith(" firewalld") or not wall.stop.table:
        open_it = (
            f"on {wall.node}: firewall-cmd --permanent --zone={wall.stop.zone or 'ZONE'} "
            f"--add-port=…; firewall-cmd --reload"
        )
        return open_it if look.assumed else look.seen.apply("firewall")
    return removal(wall)


def stretches(ports: Sequence[tuple[int, bool]]) -> str:
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


def half_open(look: Look, wall: Wall) -> Finding | None:
    """A part of the range is shut: jobs fail now and then."""
    first = wall.group[0]
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
    text = f"{wall.node} lets {direction(wall)} through to a part of the data range only: {stretches(tried)}"
    found = told(wall, "DG-101", text, mending(look, wall), f"{data['firewalld']}/tcp open")
    return replace(found, seen=f"{stretches(tried)}; {found.seen}")


def named_only(look: Look, wall: Wall) -> Finding | None:
    """Only the store's or the rendezvous' port is shut."""
    first = wall.group[0]
    if not first.kinds or set(first.kinds) & set(DATA_KINDS):
        return None
    verb = {"dropped": "drops", "rejected": "rejects", "refused": "resets"}[met(wall)[0]]
    text = f"{wall.node} {verb} {first.ports} for {direction(wall)}, so no job of several nodes can start"
    return told(wall, "DG-105", text, mending(look, wall))


def met(wall: Wall) -> tuple[Verdict, str]:
    """What a link meets, and how that is said.

    The kernel sends an address six ICMP answers at once and then one a second (icmp_ratelimit), and the answers to the
    other direction's packets count, too. So a rule that rejects may look like one that drops.
    """
    verdict, stop = wall.group[0].verdict, wall.stop
    silent = verdict == "dropped" and wall.packet.state == "new" and stop.table
    if silent and stop.verdict == REJECT and not stop.reset:
        return "rejected", "is rejected, although no ICMP answer came (the kernel limits them)"
    return verdict, SAID[verdict]


def plainly(look: Look, wall: Wall) -> Finding:
    """A shut link that has no better name: who stops it, with which rule, and how far the packets came."""
    first = wall.group[0]
    by_rule = (
        f"; the rule is in chain {wall.stop.chain} of table {wall.stop.table}"
        if wall.stop.table
        else ""
    )
    zone = f", zone {wall.stop.zone}" if wall.stop.zone else ""
    verdict, words = met(wall)
    cause = f"{direction(wall)} {words}{where(first)}{by_rule}{zone}"
    found = told(
        wall,
        CODES_OF[verdict],
        cause,
        mending(look, wall) if wall.stop.table else mend(look.seen, first),
    )
    shown = f"{first.shown}; {found.seen}" if wall.stop.table else first.shown
    return replace(found, seen=shown, expected="open")


CAUSES = (on_the_way, second_table, in_zone, beside_rdma, half_open, named_only)


def rule_walls(look: Look) -> Iterator[Finding]:
    """The deepest cause of every shut link."""
    for wall in walls(look):
        named = (cause(look, wall) for cause in CAUSES)
        yield next((found for found in named if found), None) or plainly(look, wall)


ZONE_PARTS = ("target", "ports", "services", "sources")
POLICY_PARTS = ("target", "ingress", "egress", "ports", "services", "rules")


def rule_runtime(look: Look) -> Iterator[Finding]:
    """What firewalld runs is not what it keeps: after a reload or a reboot the nodes behave differently."""
    shut = walls(look)
    for name in look.nodes:
        held = look.survey(name).get("firewalld", {})
        sets = held.get("ipsets", {})
        for zone, both in held.get("zones", {}).items():
            active = zone in held.get("active", {}) or zone == held.get("default")
            apart = differing(both, ZONE_PARTS) if active else []
            if apart and both["permanent"]:
                ports = both["permanent"]["ports"]
                hit = [w for w in shut if here(w, name) and opens(ports, w.port)]
                yield runtime_finding(look, (name, f"zone {zone}"), both, apart[0], hit)
        for policy, state in held.get("policies", {}).items():
            apart = differing(state, POLICY_PARTS)
            if apart and state["permanent"]:
                kept = state["permanent"]["rules"]
                hit = [
                    w for w in shut if here(w, name) and lets_in(kept, w.port, w.packet.saddr, sets)
                ]
                yield runtime_finding(look, (name, f"policy {policy}"), state, apart[0], hit)


def here(wall: Wall, node: str) -> bool:
    """Whether a node stops what comes in."""
    return wall.node == node and not wall.packet.outgoing


def differing(both: Both, parts: Sequence[str]) -> list[str]:
    """Which parts of what is kept are not what runs. A rule may name its parts in another order."""
    kept, now = both["permanent"], both["runtime"]
    if not kept:
        return []

    def same_order(value: Any) -> Any:
        return sorted(sorted(one.split()) for one in value) if isinstance(value, list) else value

    return [key for key in parts if same_order(kept[key]) != same_order(now[key])]


def runtime_finding(
    look: Look, where: tuple[str, str], both: Both, key: str, hit: list[Wall]
) -> Finding:
    """One zone or policy whose two sides differ, and the links that are shut for it."""
    name, what = where
    now, kept = only(both["runtime"][key], both["permanent"][key])
    reload = "firewall-cmd --reload"
    fix = f"on {name}: {reload if hit else f'firewall-cmd --runtime-to-permanent, or {reload}'}"
    return Finding(
        "DG-214",
        "L2",
        f"firewalld on {name} runs {what} with other {key} than it keeps",
        node=name,
        peer=others(hit[0]) if hit else "",
        port=hit[0].group[0].ports if hit else "",
        direction=direction(hit[0]) if hit else "",
        seen=f"runs {key}: {now}",
        expected=f"keeps {key}: {kept}",
        fix=fix if hit or look.assumed else f"{fix}; {look.seen.apply('firewall')}",
        severity="error" if hit else WARNING,
        pairs=tuple(pair for wall in hit for pair in wall.pairs),
        kinds=tuple(sorted({kind for wall in hit for kind in wall.kinds})),
    )


def only(now: Any, kept: Any) -> tuple[str, str]:
    """Both sides in words; of rules, which are long, those that the other side lacks."""
    if not isinstance(now, list):
        return now or "default", kept or "default"
    if not any(one.startswith("rule ") for one in (*now, *kept)):
        return in_words(now), in_words(kept)
    return (
        in_words([one for one in now if one not in kept]) or "none of these",
        in_words([one for one in kept if one not in now]) or "none of these",
    )


RULES = (rule_walls, rule_runtime)
