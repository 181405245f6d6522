"""Lost packets and measured rates of links."""

from __future__ import annotations

from collections.abc import Mapping
from statistics import median

from fullmesh.causes.evidence import ClusterEvidence
from fullmesh.causes.firewall.packet_filter import (
    PacketVerdict,
    find_possible_stops,
    make_reply_packet,
    make_tcp_packet,
)
from fullmesh.causes.quality.rates import SlowCulprit, Way, find_slow_culprits
from fullmesh.observed.ladder import BY_CHANCE
from fullmesh.observed.ports import KERNEL_RANGE

# Of connections: where only first packets are lost, they are few among all that carry data.
HURT_LEAST, OFTEN_LEAST, HURT_SHARE = 2, 3, 0.2


SLOW_MBIT = 100.0  # no cluster network is slower than this (Gloo transfers 12 MB/s)


SLOW_SHARE = 0.1  # of the interface's speed, or of the other links' median


def count_lossy_connections(evidence: ClusterEvidence, source: str, target: str) -> tuple[int, int]:
    """Count a link's open connections: those with a retransmitted segment, and all."""
    good = [r for r in evidence.records(source) if r["node"] == target and r["verdict"] == "open"]
    return sum(bool(r.get("lost")) for r in good), len(good)


def is_random_loss(evidence: ClusterEvidence, source: str, target: str) -> bool:
    """Report whether a link loses packets at random. Then one success in two attempts proves nothing."""
    held = [r for r in evidence.records(source) if r["node"] == target]
    bad, tried = count_lossy_connections(evidence, source, target)
    repeated = sum(r.get("lost", 0) for r in held if r["verdict"] == "open")
    again = any(r["remark"].startswith(BY_CHANCE) for r in held)
    return again or (repeated >= HURT_LEAST and bad >= HURT_SHARE * tried)


def find_dropping_rule(
    evidence: ClusterEvidence, source: str, target: str
) -> tuple[str, PacketVerdict] | None:
    """Find a rule on one of two nodes that may drop some of the packets between them, and its node."""
    for near, far in ((source, target), (target, source)):
        port = next((r["port"] for r in evidence.records(near) if r["node"] == far), 0)
        interfaces = evidence.get_cluster_interface(near), evidence.get_cluster_interface(far)
        asked = make_tcp_packet(evidence.address(near), evidence.address(far), port, interfaces[1])
        left = make_tcp_packet(
            evidence.address(near), evidence.address(far), port, interfaces[0], outgoing=True
        )
        back = KERNEL_RANGE.last
        for node, packet in (
            (far, asked),
            (near, left),
            (far, make_reply_packet(asked, back)),
            (near, make_reply_packet(left, back)),
        ):
            for stop in find_possible_stops(evidence.ruleset(node), packet):
                return node, stop
    return None


def read_measured_rates(evidence: ClusterEvidence) -> dict[Way, float]:
    """Return the measured rates in Mbit/s."""
    return {
        (name, rate["node"]): rate["mbit_s"]
        for name in evidence.nodes
        for rate in evidence.seen.nodes[name].get("links", {}).get("bandwidth", [])
    }


def compute_rate_floors(evidence: ClusterEvidence, rates: Mapping[Way, float]) -> dict[Way, float]:
    """Return the rate below which each direction is slow."""
    usual = median(rates.values()) if rates else 0.0
    return {way: compute_rate_floor(evidence, way[0], usual, len(rates)) for way in rates}


def find_rate_culprits(evidence: ClusterEvidence) -> list[SlowCulprit]:
    """Find the causes of slow directions."""
    rates = read_measured_rates(evidence)
    least = compute_rate_floors(evidence, rates)
    return find_slow_culprits(rates, [way for way, rate in rates.items() if rate < least[way]])


def compute_rate_floor(evidence: ClusterEvidence, name: str, usual: float, count: int) -> float:
    """Return the rate below which a link is slow."""
    interface = evidence.find_nic(name, evidence.get_cluster_interface(name))
    speed = float(interface["speed"]) if interface and interface["physical"] else 0.0
    among = SLOW_SHARE * usual if count > 2 else 0.0  # noqa: PLR2004 (two nodes have two links, and no usual)
    # A virtual NIC does not report its real speed, so ignore it.
    return max(SLOW_MBIT, min(SLOW_SHARE * speed, 1000.0), among)
