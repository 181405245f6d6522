"""A rule of a node's packet filter stops ARP

A node sends an ARP request for a peer's address before its first packet. Chains of the families
netdev and arp filter ARP, and chains for IP do not. Without a reply, connections fail with 'No
route to host'. If ARP gets no reply on a link, Fullmesh evaluates the ARP rules of both ends.

**Prove:** nft list tables && ip neigh show && arping -c 1 -I INTERFACE PEER

**Fix:** Remove the rule, or accept ARP before it (netdev: ether type arp accept).

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
    """Yield the rules of the two nodes that stop ARP requests or replies, certain ones first."""
    ends = (evidence.address(source), evidence.address(target))
    perhaps = []
    for name in (source, target):
        interface, rules = evidence.get_cluster_interface(name), evidence.ruleset(name)
        for outgoing in (True, False):
            packet = Packet(ARP, *ends, "", 0, interface, outgoing)
            stop = packet_filter.evaluate_packet(rules, packet)
            if stop.verdict != packet_filter.ACCEPT:
                yield name, stop
            perhaps += [(name, one) for one in packet_filter.find_possible_stops(rules, packet)]
    yield from perhaps


def rule_blocked_arp(evidence: ClusterEvidence) -> Iterator[Finding]:
    """Find rules (families netdev and arp) that stop ARP on links without an ARP reply.

    Rules for TCP never see ARP, so captures of the probe's packets cannot show which rule it is.
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
            f"a rule of {name} {verb if stop.sure else f'may be the one that {verb}'} ARP between it and"
            f" {join_names(peers)}, so neither finds the other's hardware address",
            node=name,
            peer=join_names(peers),
            direction=f"{name} <-> {join_names(peers)}",
            seen=f"table {stop.table} chain {stop.chain}: {stop.text}",
            expected="ARP passes",
            fix=f"on {name}: nft delete rule {place} handle {stop.handle}"
            if stop.handle
            else f"on {name}: nft list chain {place}, then set 'policy accept' or add a rule for ARP",
            pairs=tuple(pairs),
        )


def list_unresolved_links(evidence: ClusterEvidence) -> list[tuple[str, str]]:
    """List the links on which the ARP request for the peer's address got no reply."""
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
            "a chain of family netdev on the interface drops ether type arp",
            fields=("node", "peer", "direction", "seen"),
        ),
    ),
)
