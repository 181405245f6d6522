"""Blocked links, and the rule of one of their two nodes that stops their packets."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from fullmesh.causes.evidence import ClusterEvidence
from fullmesh.causes.firewall import packet_filter
from fullmesh.causes.firewall.packet_filter import (
    ACCEPT,
    DROP,
    REJECT,
    PacketVerdict,
    is_tcp_reset_rule,
    make_reply_packet,
    make_tcp_packet,
)
from fullmesh.causes.firewall.packet_filter import format_nft_rule as rule_in_words
from fullmesh.netfilter.evaluator import STOPS, Packet, parse_verdict
from fullmesh.netfilter.ruleset import Ruleset
from fullmesh.observed.ladder import TracedPacket
from fullmesh.observed.ports import KERNEL_RANGE
from fullmesh.result.findings import join_names
from fullmesh.verify.blocked import (
    FIREWALLED,
    BlockedLink,
    group_blocked_links,
    list_blocked_links,
)

PORTS_TRIED = 6  # blocked ports of a link to evaluate the rules for


@dataclass(frozen=True)
class BlockingRule:
    """Links that one rule blocks, or links that are blocked in the same way by an unknown rule.

    Attributes:
        group: the links whose first packet is stopped. They give the finding's direction.
        node: the node that stops them.
        stop: the rule. It accepts if no rule of the two nodes stops the packets.
        packet: the packet that was stopped.
        answers: links in the other direction whose replies the same rule stops.
        too: links on which the rule stops packets although no probe lost one there.
    """

    group: tuple[BlockedLink, ...]
    node: str
    stop: PacketVerdict
    packet: Packet
    answers: tuple[BlockedLink, ...] = ()
    too: tuple[tuple[str, str], ...] = ()

    @property
    def pairs(self) -> tuple[tuple[str, str], ...]:
        """The links."""
        return (*((b.source, b.target) for b in (*self.group, *self.answers)), *self.too)

    @property
    def kinds(self) -> tuple[str, ...]:
        """The kinds of listeners."""
        return tuple(sorted({k for b in (*self.group, *self.answers) for k in b.kinds}))

    @property
    def port(self) -> int:
        """The port of a listener that could not be reached."""
        return self.packet.sport or self.packet.dport


def list_blocked_ports(evidence: ClusterEvidence, block: BlockedLink) -> list[int]:
    """List the ports of a link that are blocked in this way."""
    return [
        r["port"]
        for r in evidence.records(block.source)
        if r["node"] == block.target and r["verdict"] != "open" and r["kind"] != "outside"
    ]


def list_failed_packets(evidence: ClusterEvidence, block: BlockedLink) -> list[tuple[str, Packet]]:
    """List the packets of failed connections with the nodes whose rules apply, the likeliest first."""
    source, target = evidence.address(block.source), evidence.address(block.target)
    interfaces = {
        name: evidence.get_cluster_interface(name) for name in (block.source, block.target)
    }
    own = evidence.port_range(block.source) or KERNEL_RANGE
    found: dict[str, list[tuple[str, Packet]]] = {
        "target": [],
        "leaving": [],
        "back": [],
        "source": [],
    }
    for port in list_blocked_ports(evidence, block)[:PORTS_TRIED]:
        to_target = make_tcp_packet(source, target, port, interfaces[block.target])
        found["target"].append((block.target, to_target))
        leaving = make_tcp_packet(source, target, port, interfaces[block.source], outgoing=True)
        found["leaving"].append((block.source, leaving))
        for back in {own.first, (own.first + own.last) // 2, own.last}:
            found["back"].append((block.target, make_reply_packet(to_target, back)))
            found["source"].append((block.source, make_reply_packet(leaving, back)))
    first = block.place if block.place in found else "target"
    return [one for key in (first, *(k for k in found if k != first)) for one in found[key]]


def resolve_traced_rule(ruleset: Ruleset, one: TracedPacket) -> tuple[str, str, bool]:
    """Return the verdict and text of the rule in a trace, and whether it rejects with a reset."""
    chain = ruleset["chains"].get((one["family"], one["table"], one["chain"]))
    for rule in chain["rules"] if chain and one["handle"] else []:
        if rule["handle"] == one["handle"]:
            said = {
                STOPS[word] for part in rule["expr"] if (word := parse_verdict(part)[0]) in STOPS
            }
            return (
                (REJECT if REJECT in said else DROP),
                rule_in_words(rule),
                is_tcp_reset_rule(rule),
            )
    return DROP, one["rule"], False


def find_traced_rule(evidence: ClusterEvidence, block: BlockedLink) -> BlockingRule | None:
    """Return the rule that the kernel's trace shows for packets of a link. None if it shows none."""
    source, target = evidence.address(block.source), evidence.address(block.target)
    shut = set(list_blocked_ports(evidence, block))
    for name in (block.source, block.target):
        interface, outgoing = evidence.get_cluster_interface(name), name == block.source
        for one in evidence.seen.nodes.get(name, {}).get("traced", []):
            ends = (one["source"], one["target"])
            asked = ends == (source, target) and one["dport"] in shut
            if not asked and not (ends == (target, source) and one["sport"] in shut):
                continue
            port = one["dport"] if asked else one["sport"]
            packet = make_tcp_packet(source, target, port, interface, outgoing=outgoing)
            verdict, text, reset = resolve_traced_rule(evidence.ruleset(name), one)
            table = f"{one['family']} {one['table']}"
            # such a rule matches on the sending account, so it may accept other accounts' packets
            sure = not any(word in one["rule"].split() for word in ("skuid", "skgid"))
            stop = PacketVerdict(
                verdict, table, one["chain"], one["handle"], text, reset, sure=sure
            )
            return BlockingRule(
                (block,), name, stop, packet if asked else make_reply_packet(packet, one["dport"])
            )
    return None


def find_blocking_rule(evidence: ClusterEvidence, block: BlockedLink) -> BlockingRule:
    """Find the node and rule that stop a link. The rule accepts if no rule of the two nodes stops it."""
    traced = find_traced_rule(evidence, block)
    if traced:
        return traced
    tried = list_failed_packets(evidence, block)
    if not block.place.startswith("on_the_way"):  # then the taps have seen that no node does it
        for node, packet in tried:
            stop = packet_filter.evaluate_packet(evidence.ruleset(node), packet)
            if stop.verdict != ACCEPT:
                return BlockingRule((block,), node, stop, packet)
        for node, packet in tried:
            for stop in packet_filter.find_possible_stops(evidence.ruleset(node), packet):
                if can_explain_block(block, node, packet, stop):
                    return BlockingRule((block,), node, stop, packet)
    packet = tried[0][1] if tried else make_tcp_packet("", "", 0, "")
    return BlockingRule((block,), block.culprit, PacketVerdict(ACCEPT), packet)


def can_explain_block(block: BlockedLink, node: str, packet: Packet, stop: PacketVerdict) -> bool:
    """Return whether a rule stops packets at the point at which this link's packets end, and with the same verdict."""
    ends = {
        "target": (block.target, False),
        "leaving": (block.source, True),
        "source": (block.source, False),
    }
    if (
        block.place in ends
        and ends[block.place] != (node, packet.outgoing)
        and not is_unsent_answer(block, node, packet)
    ):
        return False
    if block.verdict == "refused":
        return stop.reset
    return not stop.reset


def is_unsent_answer(block: BlockedLink, node: str, packet: Packet) -> bool:
    """Return whether the packet is a reply that never left the target: its tap saw packets come in and none go out."""
    return block.place == "target" and node == block.target and packet.outgoing


def find_request_blocks(
    evidence: ClusterEvidence, block: BlockedLink, rule: BlockingRule
) -> list[BlockingRule]:
    """Find a rule of the other node that stops requests on further ports, if a first rule stops replies."""
    if not rule.stop.table or rule.packet.state == "new":
        return []
    for node, packet in list_failed_packets(evidence, block):
        if packet.state == "new" and node != rule.node:
            stop = packet_filter.evaluate_packet(evidence.ruleset(node), packet)
            if stop.verdict != ACCEPT and stop.table:
                return [BlockingRule((block,), node, stop, packet)]
    return []


def find_reverse_links(
    evidence: ClusterEvidence, rule: BlockingRule
) -> tuple[tuple[str, str], ...]:
    """Find links in the other direction that a rule against replies also blocks, by its text.

    The rule stops requests from its port, because listeners of the data range reply from ports that
    the kernel also gives to its own connections. A probe gets such a port only by chance. The rule
    also stops all packets after the first: the link looks open, but no reply arrives.
    """
    if not rule.stop.table or not rule.stop.sure or rule.packet.state == "new":
        return ()
    place = (rule.stop.table, rule.stop.chain, rule.stop.handle)
    found = []
    for block in (*rule.group, *rule.answers):
        # answers leave the target and arrive at the source
        if rule.node != (block.target if rule.packet.outgoing else block.source):
            continue
        own = evidence.port_range(block.target) or KERNEL_RANGE
        ends, interface = (
            (evidence.address(block.target), evidence.address(block.source)),
            evidence.get_cluster_interface(rule.node),
        )
        asked = make_tcp_packet(*ends, own.first, interface, outgoing=rule.packet.outgoing)
        from_there = asked._replace(sport=rule.port) if rule.port in own else asked
        for packet in (from_there, asked._replace(sport=own.last, state="established")):
            stop = packet_filter.evaluate_packet(evidence.ruleset(rule.node), packet)
            if (stop.table, stop.chain, stop.handle) == place:
                found.append((block.target, block.source))
                break
    return tuple(pair for pair in found if pair not in rule.pairs)


def group_blocking_rules(evidence: ClusterEvidence) -> list[BlockingRule]:
    """Group all blocked links by rule."""
    shut = [b for b in list_blocked_links(evidence.seen) if b.verdict in FIREWALLED]
    by_rule: dict[tuple[object, ...], list[BlockingRule]] = {}
    found: list[BlockingRule] = []
    unknown: list[BlockedLink] = []
    for block in shut:
        first = find_blocking_rule(evidence, block)
        if not first.stop.table:
            unknown.append(block)
            continue
        for rule in (first, *find_request_blocks(evidence, block, first)):
            key = (rule.node, rule.stop.table, rule.stop.chain, rule.stop.handle)
            by_rule.setdefault(key, []).append(rule)
    for held in by_rule.values():
        whole = merge_rule_links(held)
        found.append(replace(whole, too=find_reverse_links(evidence, whole)))
    for group in group_blocked_links(unknown):
        found.append(replace(find_blocking_rule(evidence, group[0]), group=tuple(group)))
    return found


def merge_rule_links(held: Sequence[BlockingRule]) -> BlockingRule:
    """Merge the links that one rule blocks. Links whose replies it stops come second."""
    asked = [rule for rule in held if rule.packet.state == "new"]
    first = (asked or held)[0]
    group = tuple(rule.group[0] for rule in asked or held)
    rest = tuple(rule.group[0] for rule in held if rule.group[0] not in group)
    return replace(first, group=group, answers=rest)


def describe_direction(rule: BlockingRule) -> str:
    """Return the direction as "SOURCES -> TARGETS"."""
    sources = sorted({b.source for b in rule.group})
    targets = sorted({b.target for b in rule.group})
    return f"{join_names(sources)} -> {join_names(targets)}"


def describe_peers(rule: BlockingRule) -> str:
    """Return the nodes at the other ends."""
    ends = {end for b in rule.group for end in (b.source, b.target)}
    return join_names(sorted(ends - {rule.node}))


def is_inbound_block(rule: BlockingRule, node: str) -> bool:
    """Return whether a node stops incoming packets."""
    return rule.node == node and not rule.packet.outgoing
