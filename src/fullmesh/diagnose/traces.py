"""Select the blocked connections to repeat while both kernels trace the rules that match their packets.

The listed rules do not explain these connections with certainty: no rule matches, or a rule may match, depending on a
rate, a mark or bytes of the packet. Such a rule can also come before the one that matches.
"""

from __future__ import annotations

from typing import TypedDict

from fullmesh.causes.evidence import ClusterEvidence
from fullmesh.causes.firewall.blocking_rules import find_blocking_rule
from fullmesh.observed.ladder import LinkResult, ProbeTarget, TracedPeer
from fullmesh.verify.blocked import DATA_KINDS, FIREWALLED, list_blocked_links

# If many links show a fault, a few links, and a few listeners of each, are enough.
LINKS_MOST, PORTS_MOST = 24, 4


class TraceRequest(TypedDict):
    """Arguments of module ladder_trace for a node."""

    node: str
    address: str
    targets: list[ProbeTarget]
    ends: list[TracedPeer]


def has_packet_filter(evidence: ClusterEvidence, name: str) -> bool:
    """Return whether a node's packet filter has rules. Only root can list and trace them."""
    return bool(evidence.survey(name).get("root")) and bool(evidence.ruleset(name)["chains"])


def select_traced_ports(evidence: ClusterEvidence, source: str, target: str) -> list[LinkResult]:
    """Select some blocked listeners of a link: the first and last of the data range, and those of the plan."""
    shut = [
        one
        for one in evidence.records(source)
        if one["node"] == target and one["verdict"] in FIREWALLED and one["kind"] != "outside"
    ]
    own = [one for one in shut if one["kind"] not in DATA_KINDS]
    data = sorted((o for o in shut if o["kind"] in DATA_KINDS), key=lambda o: o["port"])
    ends = [data[0], data[-1]] if len(data) > 1 else data
    return [*ends, *own][:PORTS_MOST]


def list_doubtful_links(evidence: ClusterEvidence) -> list[tuple[str, str]]:
    """Select the blocked links for which no listed rule is certainly the cause."""
    found = []
    for block in list_blocked_links(evidence.seen):
        if block.verdict not in FIREWALLED:
            continue
        stop = find_blocking_rule(evidence, block).stop
        certain = stop.table and stop.sure and not stop.doubts
        if not certain and (
            has_packet_filter(evidence, block.source) or has_packet_filter(evidence, block.target)
        ):
            found.append((block.source, block.target))
    return list(dict.fromkeys(found))[:LINKS_MOST]


def build_trace_requests(evidence: ClusterEvidence) -> dict[str, TraceRequest]:
    """Map each node to the connections that it repeats and traces. Empty if there are none."""
    found: dict[str, TraceRequest] = {}

    def of(name: str) -> TraceRequest:
        empty: TraceRequest = {
            "node": name,
            "address": evidence.address(name),
            "targets": [],
            "ends": [],
        }
        return found.setdefault(name, empty)

    def watch(name: str, peer: str, mine: list[int], theirs: list[int]) -> None:
        address = evidence.address(peer)
        for end in of(name)["ends"]:
            if end["address"] == address:
                end["mine"] += mine
                end["theirs"] += theirs
                return
        of(name)["ends"].append({"address": address, "mine": [*mine], "theirs": [*theirs]})

    for source, target in list_doubtful_links(evidence):
        shut = select_traced_ports(evidence, source, target)
        ports = sorted({one["port"] for one in shut})
        watch(source, target, [], ports)
        watch(target, source, ports, [])
        of(source)["targets"] += [
            {
                "node": one["node"],
                "address": one["address"],
                "port": one["port"],
                "kind": one["kind"],
            }
            for one in shut
        ]
    return found
