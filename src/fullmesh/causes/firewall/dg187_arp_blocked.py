"""a rule of a node's packet filter stops ARP

Before the first packet a node asks who has the peer's address (ARP, RFC 826). Chains of the family netdev, at the
card, and of the family arp see that; those for IP and TCP do not. Where nobody answers, both ends' rules are asked
what they do with it.

**Prove:** nft list tables; ip neigh show; arping -c 1 -I CARD PEER

**Fix:** Take the rule away, or let ARP through before it (netdev: ether type arp accept).

**Source:** nft(8), ARP ADDRESS FAMILY and NETDEV ADDRESS FAMILY
"""

from __future__ import annotations

from collections.abc import Iterator

from fullmesh.causes.engine import Cause, CauseCase, Explains
from fullmesh.causes.evidence import ClusterEvidence
from fullmesh.causes.firewall import packet_filter
from fullmesh.causes.firewall.packet_filter import VERBS, PacketVerdict
from fullmesh.causes.relations import KERNELS, LINKS, WALLS, is_return_path
from fullmesh.netfilter.evaluator import ARP, Packet
from fullmesh.result.findings import Finding, join_names
from fullmesh.verify.blocked import (
    list_blocked_links,
)


def find_arp_stops(
    evidence: ClusterEvidence, source: str, target: str
) -> Iterator[tuple[str, PacketVerdict]]:
    """The rules of the two nodes that stop who-has and its answer, those that do for certain first."""
    ends = (evidence.address(source), evidence.address(target))
    perhaps = []
    for name in (source, target):
        card, rules = evidence.cluster_card(name), evidence.ruleset(name)
        for outgoing in (True, False):
            packet = Packet(ARP, *ends, "", 0, card, outgoing)
            stop = packet_filter.evaluate_packet(rules, packet)
            if stop.verdict != packet_filter.ACCEPT:
                yield name, stop
            perhaps += [(name, one) for one in packet_filter.find_possible_stops(rules, packet)]
    yield from perhaps


def rule_blocked_arp(evidence: ClusterEvidence) -> Iterator[Finding]:
    """Nobody answers ARP on a link, and a rule of one of its nodes stops it: a chain at the card, or of family arp.

    Rules for TCP never see it, so whose rule it is, neither the probe's packets nor their absence tell.
    """
    found: dict[tuple[str, str, str, int], tuple[PacketVerdict, list[tuple[str, str]]]] = {}
    for source, target in list_unresolved_links(evidence):
        for name, stop in find_arp_stops(evidence, source, target):
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


def list_unresolved_links(evidence: ClusterEvidence) -> list[tuple[str, str]]:
    """The links on which the peer's address was asked for and nobody answered."""
    return [
        (block.source, block.target)
        for block in list_blocked_links(evidence.seen)
        if block.verdict == "no_route"
        and evidence.plan["family"] != "ipv6"
        and any(
            one["neighbour"] == "failed"
            for one in evidence.records(block.source)
            if one["node"] == block.target and one["verdict"] == "no_route"
        )
    ]


CAUSE = Cause(
    "DG-187",
    __doc__,
    find=rule_blocked_arp,
    needs=("nft",),
    weight=940,
    explains=(Explains((*LINKS, *WALLS, *KERNELS, "DG-138", "DG-139"), is_return_path),),
    cases=(
        CauseCase(
            "arp-drop",
            "a chain of family netdev at the card drops ether type arp",
            fields=("node", "peer", "direction", "seen"),
        ),
    ),
)
