"""A link is far too slow

The slowest link sets the pace of every collective, and no message reports it. If a node is slow to
all peers, its NIC, cable, switch port or queue is the cause. If only one pair is slow, the path
between them is.

**Prove:** ethtool INTERFACE && tc qdisc show dev INTERFACE

**Fix:** Correct the negotiated speed, or remove the traffic shaping.

**Source:** measured with torch 2.13
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from fullmesh.causes.engine import LINK, Cause, CauseCase, Explains
from fullmesh.causes.evidence import ClusterEvidence
from fullmesh.causes.quality.link_quality import (
    compute_rate_floors,
    find_rate_culprits,
    read_measured_rates,
)
from fullmesh.causes.quality.rates import SlowCulprit, Way
from fullmesh.causes.relations import has_same_links
from fullmesh.result.findings import Finding, join_names

CARD_ERRORS = ("rx_crc", "rx_errors", "rx_frame", "tx_errors", "tx_carrier")


def rule_slow_rates(evidence: ClusterEvidence) -> Iterator[Finding]:
    """Report links that are far slower than their NIC or than the others, and name the NIC, node or link."""
    rates = read_measured_rates(evidence)
    for one in find_rate_culprits(evidence):
        yield make_rate_finding(evidence, one, rates, compute_rate_floors(evidence, rates))


def make_rate_finding(
    evidence: ClusterEvidence,
    one: SlowCulprit,
    rates: Mapping[Way, float],
    least: Mapping[Way, float],
) -> Finding:
    """Make the finding for slow links with the same cause."""
    # Both directions are measured at once, and a slow direction delays the acknowledgements of the other.
    ways = one.ways[:1] if one.kind == "link" else one.ways
    worst = min(ways, key=lambda way: rates[way])
    node = one.node or evidence.master
    side = {"out": 0, "in": 1}.get(one.kind)
    felt = [way for way in ways if side is None or way[side] == node]
    peers = join_names(sorted({end for way in ways for end in way} - {node}))
    nic, best = evidence.get_cluster_interface(node) or "INTERFACE", max(rates[way] for way in felt)
    fault = describe_interface_fault(evidence, node)
    words = {
        "all": f"every link is slow: at best {best:.0f} Mbit/s",
        "node": f"{node} sends and receives at most {best:.0f} Mbit/s with every peer: its NIC, cable or switch"
        f" port{fault}",
        "out": f"{node} sends at most {best:.0f} Mbit/s to every peer{fault}",
        "in": f"{node} receives at most {best:.0f} Mbit/s from every peer{fault}",
        "link": f"{worst[0]} sends {rates[worst]:.0f} Mbit/s to {worst[1]}, which is far too slow",
    }
    arrow = {
        "in": f"{peers} -> {node}",
        "node": f"{node} <-> {peers}",
        "all": f"{node} <-> {peers}",
    }
    also = f", and the same on {worst[1]}" if one.kind == "link" else ""
    return Finding(
        "DG-139",
        "L2",
        words[one.kind],
        node=node,
        peer=peers,
        port="all",
        direction=arrow.get(one.kind, f"{node} -> {peers}"),
        seen=f"{rates[worst]:.1f} Mbit/s",
        expected=f"at least {least[worst]:.0f} Mbit/s",
        check=""
        if one.kind == "all"
        else f"on {node}: tc qdisc show; ethtool {nic}; ip -s link show {nic}{also}",
        fix="correct the switch, or the settings that all nodes share"
        if one.kind == "all"
        else "remove the queue limit, correct the speed or duplex mode, or replace the cable",
        pairs=tuple(ways),
    )


def describe_interface_fault(evidence: ClusterEvidence, name: str) -> str:
    """Describe a setting of a node's NIC that the other nodes do not have."""
    nics = {
        one: evidence.find_nic(one, evidence.get_cluster_interface(one)) for one in evidence.nodes
    }
    own, others = nics.get(name), [nic for one, nic in nics.items() if nic and one != name]
    if not own:
        return ""
    speed = max((nic["speed"] for nic in others), default=0)
    said = []
    if 0 < own["speed"] < speed:
        said.append(f"{own['name']} runs at {own['speed']} Mbit/s, others' at {speed}")
    if own["duplex"] == "half":
        said.append(f"{own['name']} is half duplex")
    wrong = [key for key, count in own["errors"].items() if count and key.startswith(CARD_ERRORS)]
    if wrong:
        said.append(f"{own['name']} counts {join_names(wrong)}")
    return f" ({'; '.join(said)})" if said else ""


CAUSE = Cause(
    "DG-139",
    __doc__,
    find=rule_slow_rates,
    weight=440,
    explains=(Explains(("VC-209",), has_same_links),),
    cases=(
        CauseCase(
            "slow",
            "tc tbf rate 10mbit on this machine's end of the peer's cable",
            fields=LINK,
            options=("--bandwidth",),
        ),
    ),
)
