"""A node's firewall drops the packets of soft-RoCE

Soft-RoCE (rdma_rxe) sends and receives its packets through the kernel, so rules for UDP port 4791
apply to them. A NIC with RoCE in hardware passes its packets by the kernel. The acknowledgements go to
the same port, so a rule on one node stops both directions.

**Prove:** nft list ruleset | grep -B 5 -A 5 4791

**Fix:** Accept UDP port 4791 from the peers' addresses on every rail.

**Source:** Linux, drivers/infiniband/sw/rxe/rxe_net.c, measured with soft-RoCE
"""

from __future__ import annotations

from collections.abc import Iterator

from fullmesh.causes.engine import RECORDED, Cause, CauseCase, Explains
from fullmesh.causes.evidence import ClusterEvidence
from fullmesh.causes.firewall.packet_filter import (
    ACCEPT,
    VERBS,
    PacketVerdict,
    evaluate_packet,
)
from fullmesh.causes.relations import has_same_links
from fullmesh.netfilter.evaluator import Packet
from fullmesh.result.findings import Finding, join_names
from fullmesh.verify.rdma_pairs import gid_to_address
from fullmesh.verify.rdma_tries import RdmaTry, get_severity, list_rdma_tries

ROCE_PORT = 4791


def rule_rdma_packets(evidence: ClusterEvidence) -> Iterator[Finding]:
    """Find rules that stop the packets of tries that failed."""
    found: dict[tuple[str, PacketVerdict], list[RdmaTry]] = {}
    for one in list_rdma_tries(evidence.seen):
        if one.lost and not one.said["spare"]:
            for node, verdict in list_stops(evidence, one):
                found.setdefault((node, verdict), []).append(one)
    for (node, stop), members in found.items():
        ends = {(one.source, one.target) for one in members}
        removal = f"nft delete rule {stop.table} {stop.chain} handle {stop.handle}"
        yield Finding(
            "DG-196",
            "L2",
            f"the table {stop.table} on {node} {VERBS[stop.verdict]} the packets of soft-RoCE: "
            f"{join_names(sorted(one.way for one in members)[:4])}",
            node=node,
            peer=join_names(sorted({name for pair in ends for name in pair} - {node})),
            port=f"{ROCE_PORT}/udp",
            seen=f"table {stop.table} chain {stop.chain}: {stop.text}",
            expected="accepted",
            fix=f"on {node}: {removal}"
            if stop.handle
            else f"on {node}: accept UDP port {ROCE_PORT} from the peers",
            severity=get_severity(evidence.seen, node),
            pairs=tuple(sorted(ends)),
        )


def list_stops(evidence: ClusterEvidence, one: RdmaTry) -> Iterator[tuple[str, PacketVerdict]]:
    """List nodes and rules that stop the packets of a try, or their acknowledgements."""
    ends = (
        (one.source, one.said["device"], str(gid_to_address(one.said["gid"]))),
        (one.target, one.said["peer_device"], str(gid_to_address(one.said["peer_gid"]))),
    )
    for node, device, own in ends:
        vendors = [
            p["vendor"] for p in evidence.survey(node).get("rdma", []) if p["device"] == device
        ]
        if vendors != [""]:  # a NIC with RoCE in hardware
            continue
        peer = next(address for _, _, address in ends if address != own)
        interface = evidence.seen.facts(node).get("addresses", {}).get(own, "")
        family = "6" if ":" in own else "4"
        for source, target, outgoing in ((own, peer, True), (peer, own, False)):
            packet = Packet(family, source, target, "udp", ROCE_PORT, interface, outgoing)
            verdict = evaluate_packet(evidence.ruleset(node), packet)
            if verdict.verdict != ACCEPT:
                yield node, verdict


CAUSE = Cause(
    "DG-196",
    __doc__,
    find=rule_rdma_packets,
    needs=("rdma",),
    weight=342,
    explains=(Explains(("VC-224", "VC-225"), has_same_links),),
    cases=(
        CauseCase(
            "rdma-rule",
            "a table drops UDP port 4791, and soft-RoCE loses its messages",
            by=RECORDED,
            severity="warning",
        ),
    ),
)
