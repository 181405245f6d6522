"""RDMA between two nodes is far slower than their ports

All rails of two nodes send messages of 1 MiB at the same time. Half of what the slower port and its
PCIe link carry is normal for any NIC. Lower rates come from lost packets without flow control (PFC,
ECN), a switch port or cable with errors, a NIC that limits itself (power, temperature), a PCIe link
that several NICs share, or other traffic on the rail.

**Prove:** ib_write_bw -d DEVICE -F PEER

**Fix:** Check errors and flow control of NICs and switch ports, then replace the cable.

**Source:** reports of DGX Spark owners (13 instead of 97 Gbit/s), measured with soft-RoCE
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from fullmesh.causes.engine import RECORDED, Cause, CauseCase, Explains
from fullmesh.causes.evidence import ClusterEvidence
from fullmesh.causes.quality.rates import SlowCulprit, Way, find_slow_culprits
from fullmesh.causes.relations import has_same_node
from fullmesh.result.findings import WARNING, Finding, join_names
from fullmesh.verify.nccl_ways import compute_pcie_rate, parse_first_number
from fullmesh.verify.rdma_tries import RdmaTry, list_rdma_tries, map_rdma_rates, name_rail

SHARE = 0.5  # of what both ports and their PCIe links carry


def compute_port_rate(evidence: ClusterEvidence, name: str, device: str) -> float:
    """Return what a port and its PCIe link carry in Mbit/s, 0 for a device without hardware."""
    for port in evidence.survey(name).get("rdma", []):
        if port["device"] == device and port["vendor"]:
            rates = parse_first_number(port["rate"]), compute_pcie_rate(port, "current")
            return min((rate for rate in rates if rate > 0), default=0.0) * 1000
    return 0.0


def compute_try_rate(evidence: ClusterEvidence, one: RdmaTry) -> float:
    """Return what both ends of a try carry in Mbit/s, 0 if unknown."""
    return min(
        compute_port_rate(evidence, one.source, one.said["device"]),
        compute_port_rate(evidence, one.target, one.said["peer_device"]),
    )


def rule_slow_rails(evidence: ClusterEvidence) -> Iterator[Finding]:
    """Find rails on which a node, a direction or a pair is far slower than the ports."""
    measured = map_rdma_rates(evidence.seen)
    rails: dict[str, dict[Way, tuple[float, float]]] = {}
    for one in list_rdma_tries(evidence.seen):
        rate = measured.get((one.source, one.target, one.said["device"], one.said["peer_device"]))
        most = compute_try_rate(evidence, one)
        if rate is None or one.said["spare"] or not most:
            continue
        ways = rails.setdefault(name_rail(evidence.seen, one), {})
        way = (one.source, one.target)
        ways[way] = min(ways.get(way, (rate, most)), (rate, most))
    for rail, ways in rails.items():
        slow = [way for way, (rate, most) in ways.items() if rate < SHARE * most]
        rates = {way: rate for way, (rate, _) in ways.items()}
        for culprit in find_slow_culprits(rates, slow):
            yield make_rail_finding(evidence, rail, culprit, ways)


def make_rail_finding(
    evidence: ClusterEvidence,
    rail: str,
    culprit: SlowCulprit,
    ways: Mapping[Way, tuple[float, float]],
) -> Finding:
    """Make the finding for slow directions of a rail with the same cause."""
    worst = min(culprit.ways, key=lambda way: ways[way][0])
    rate, most = ways[worst]
    node = culprit.node or evidence.master
    peers = join_names(sorted({end for way in culprit.ways for end in way} - {node}))
    words = {
        "all": "every pair is slow",
        "node": f"{node} is slow with every peer",
        "out": f"{node} sends slowly to every peer",
        "in": f"{node} receives slowly from every peer",
        "link": f"{worst[0]} sends slowly to {worst[1]}",
    }
    return Finding(
        "DG-199",
        "L2",
        f"RDMA on {rail}: {words[culprit.kind]}",
        node=node,
        peer=peers,
        direction=f"{worst[0]} -> {worst[1]}",
        seen=f"{rate / 1000:.1f} Gbit/s",
        expected=f"at least {SHARE * most / 1000:.0f} of {most / 1000:.0f} Gbit/s",
        check=f"on {node}: rdma statistic; ethtool -S",
        fix="correct the errors and the flow control (PFC, ECN) of NIC and switch port, or replace the cable",
        severity=WARNING,
        pairs=culprit.ways,
    )


CAUSE = Cause(
    "DG-199",
    __doc__,
    find=rule_slow_rails,
    needs=("rdma",),
    severity=WARNING,
    weight=130,
    explains=(Explains(("VC-714",), has_same_node),),
    cases=(
        CauseCase("rdma-rate", "a rail of 100 Gbit/s carries 13 in one direction", by=RECORDED),
    ),
)
