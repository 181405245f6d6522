"""The interface with the cluster address belongs to a bridge, a bond or a VRF

An interface that belongs to a bridge or a bond has no network layer of its own: the kernel hands
incoming packets and ARP replies to the upper interface. An address that stays on the member gets no
ARP reply. In a VRF, ordinary sockets do not use the routes of the interface.

**Prove:** ip -br link show master MASTER && ip -br address

**Fix:** Move the address to the upper interface, or remove the interface from it: ip link set
INTERFACE nomaster

**Source:** ip-link(8), measured: a bridge over the interface with the address
"""

from __future__ import annotations

from collections.abc import Iterator

from fullmesh.causes.engine import LINK, Cause, CauseCase, Explains
from fullmesh.causes.evidence import ClusterEvidence
from fullmesh.causes.relations import KERNELS, LINKS, WALLS, has_root_node
from fullmesh.causes.routes.decisions import ALL_KINDS, find_broken_links
from fullmesh.result.findings import Finding, join_names


def rule_enslaved_interfaces(evidence: ClusterEvidence) -> Iterator[Finding]:
    """Report cluster interfaces that belong to an upper interface, if links of their node are broken."""
    for name in evidence.nodes:
        nic = evidence.find_nic(name, evidence.get_cluster_interface(name))
        master = nic.get("master", "") if nic else ""
        if not nic or not master:
            continue
        pairs = tuple(
            pair
            for peer in evidence.peers(name)
            if peer in evidence.nodes
            for pair in find_broken_links(evidence, name, peer).pairs
        )
        if not pairs:
            continue
        kind = nic.get("master_kind") or "interface"
        peers = join_names(sorted({end for pair in pairs for end in pair} - {name}))
        yield Finding(
            "DG-193",
            "L1",
            f"{nic['name']} of {name} has the cluster address, but belongs to the {kind} {master}",
            node=name,
            peer=peers,
            port="all",
            direction=f"{name} <-> {peers}",
            seen=f"{nic['name']} master {master}",
            expected=f"the address on {master}, or {nic['name']} without a master",
            check=f"on {name}: ip -br link show master {master}; ip -br address",
            fix=f"on {name}: ip link set {nic['name']} nomaster, or move {evidence.address(name)} to {master}",
            pairs=pairs,
            kinds=ALL_KINDS,
        )


CAUSE = Cause(
    "DG-193",
    __doc__,
    find=rule_enslaved_interfaces,
    needs=("interfaces",),
    weight=1030,
    explains=(
        Explains(
            (*LINKS, *WALLS, *KERNELS, "DG-138", "DG-139", "DG-141", "DG-155", "DG-156", "DG-157"),
            has_root_node,
        ),
    ),
    cases=(
        CauseCase(
            "enslaved", "ip link set eth1 master of a bridge without an address", fields=LINK
        ),
    ),
)
