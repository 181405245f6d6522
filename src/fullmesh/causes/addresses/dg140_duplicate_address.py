"""Two machines have the same cluster address

Packets go to the machine that answered ARP last. Connections alternately work and fail, or reach a
machine that is not in the job.

**Prove:** arping -D -I INTERFACE ADDRESS && ip neigh show

**Fix:** Find the MAC in the switch's table and give that machine another address. If the finding
names a node of the plan, remove the address there. The kernel answers on every interface for all
addresses of a node, even for one on lo (arp_ignore=0).

**Source:** ip-sysctl (kernel documentation), arp_ignore
"""

from __future__ import annotations

from collections.abc import Iterator

from fullmesh.causes.addresses.taken_addresses import (
    find_stale_neighbour,
    list_foreign_macs,
    map_card_owners,
)
from fullmesh.causes.engine import NODE, Cause, CauseCase, Explains
from fullmesh.causes.evidence import ClusterEvidence
from fullmesh.causes.relations import KERNELS, LINKS, WALLS, has_root_end, has_same_node
from fullmesh.result.findings import Finding, join_names


def make_duplicate_finding(evidence: ClusterEvidence, name: str, mac: str, holder: str) -> Finding:
    """Make a finding about a node of the plan that answers for another node's address."""
    address, nic = evidence.address(name), evidence.get_cluster_interface(holder)
    if evidence.holds(holder, address):
        what, fix = (
            "has",
            f"ip address show to {address}, then ip address del {address}/LENGTH dev INTERFACE",
        )
    else:
        what, fix = "answers for", f"sysctl net.ipv4.conf.{nic}.proxy_arp && ip neigh show proxy"
    return Finding(
        "DG-140",
        "L2",
        f"{holder} {what} the address {address} of {name}, too",
        node=holder,
        peer=name,
        direction=f"{holder} <-> {name}",
        seen=f"{mac} of {holder} answered for it",
        expected=f"{address} on {name} alone",
        fix=f"on {holder}: {fix}",
    )


def rule_duplicate_address(evidence: ClusterEvidence) -> Iterator[Finding]:
    """Find machines that answer for a node's cluster address."""
    owners = map_card_owners(evidence)
    for name, mac, who in list_foreign_macs(evidence):
        if mac in owners:
            yield make_duplicate_finding(evidence, name, mac, owners[mac])
            continue
        if find_stale_neighbour(evidence, name, mac, who):
            continue
        yield Finding(
            "DG-140",
            "L2",
            f"another machine has the address {evidence.address(name)} of {name}, too: {mac} answers for it",
            node=name,
            peer=join_names(evidence.peers(name)),
            seen=f"{mac} answered {join_names(who)}",
            expected=join_names(
                [
                    c["mac"]
                    for c in evidence.list_nics(name)
                    if c["name"] == evidence.get_cluster_interface(name)
                ]
            ),
            check=f"on {who[0]}: arping -D -I {evidence.get_cluster_interface(who[0])} {evidence.address(name)}",
            fix=f"find {mac} in the switch's table, and give that machine another address",
        )


CAUSE = Cause(
    "DG-140",
    __doc__,
    find=rule_duplicate_address,
    needs=("interfaces",),
    weight=1080,
    explains=(
        Explains((*LINKS, *WALLS, *KERNELS, "DG-138", "DG-139", "DG-141", "VC-103"), has_root_end),
        Explains(("DG-155", "DG-156"), has_same_node),
    ),
    cases=(
        CauseCase(
            "duplicate",
            "another namespace on the bridge with the victim's address",
            fields=(*NODE, "peer"),
        ),
    ),
)
