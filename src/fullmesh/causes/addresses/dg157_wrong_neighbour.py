"""A node has a wrong hardware address for a peer in its neighbour table

A PERMANENT or NOARP entry never expires, so the kernel does not ask again. If the peer's NIC was
replaced or the entry was copied from another node, every packet for the peer goes to the wrong
machine or to none. Connections to that peer time out.

**Prove:** ip neigh show PEER nud all (`nud all` includes NOARP), and on the peer: ip link show
INTERFACE

**Fix:** ip neigh del PEER dev INTERFACE. Then remove the line from the boot script or service that
adds it.

**Source:** measured: the machine that receives the frames drops them with the reason OTHERHOST
"""

from __future__ import annotations

from collections.abc import Iterator

from fullmesh.causes.addresses.taken_addresses import (
    find_stale_neighbour,
    list_foreign_macs,
    map_card_owners,
)
from fullmesh.causes.engine import LINK, Cause, CauseCase, Explains
from fullmesh.causes.evidence import ClusterEvidence
from fullmesh.causes.relations import KERNELS, LINKS, WALLS, is_return_path
from fullmesh.causes.routes.decisions import ALL_KINDS, find_broken_links
from fullmesh.observed.survey import Neighbour
from fullmesh.result.findings import Finding, join_names


def is_cluster_neighbour(evidence: ClusterEvidence, name: str, entry: Neighbour) -> bool:
    """Return whether an entry is on the cluster interface."""
    return entry["dev"] in ("", evidence.get_cluster_interface(name))


def rule_stale_neighbours(evidence: ClusterEvidence) -> Iterator[Finding]:
    """Find static neighbour entries whose hardware address is not the peer's."""
    owners = {evidence.address(name): name for name in evidence.nodes}
    place = {name: number for number, name in enumerate(evidence.nodes)}
    for name in evidence.nodes:
        entries = (
            evidence.seen.nodes[name].get("links", {}).get("neighbours", {}).get("entries", {})
        )
        held = {owners[one]: entry for one, entry in entries.items() if one in owners}
        for peer in sorted(held.keys() - {name}, key=place.__getitem__):
            entry = held[peer]
            own = {nic["mac"] for nic in evidence.list_nics(peer)}
            if not own or entry["mac"] in own or not is_cluster_neighbour(evidence, name, entry):
                continue
            found = find_broken_links(evidence, name, peer)
            if not found.pairs or not entry.get("by_hand"):
                continue
            yield Finding(
                "DG-157",
                "L2",
                f"{name} sends packets for {peer} to {entry['mac'] or 'no machine'}, which is not {peer}'s interface: a"
                " static neighbour entry is wrong",
                node=name,
                peer=peer,
                port="all",
                direction=f"{name} -> {peer}",
                seen=f"{evidence.address(peer)} lladdr {entry['mac']} {entry.get('nud') or 'PERMANENT or NOARP'}: the"
                " kernel never asks again",
                expected=join_names(
                    [
                        c["mac"]
                        for c in evidence.list_nics(peer)
                        if c["name"] == evidence.get_cluster_interface(peer)
                    ]
                ),
                fix=f"on {name}: ip neigh del {evidence.address(peer)} dev {entry['dev']}. Then remove it from"
                " boot scripts (ip neigh), NetworkManager's dispatcher.d or /etc/ethers",
                pairs=found.pairs,
                kinds=ALL_KINDS,
            )


def rule_learnt_neighbour(evidence: ClusterEvidence) -> Iterator[Finding]:
    """Find learnt neighbour entries whose hardware address is not the peer's."""
    owners = map_card_owners(evidence)
    for name, mac, who in list_foreign_macs(evidence):
        stale = None if mac in owners else find_stale_neighbour(evidence, name, mac, who)
        if stale:
            yield stale


def rule_any_wrong_neighbour(evidence: ClusterEvidence) -> Iterator[Finding]:
    """Find static and learnt entries that are wrong."""
    yield from rule_stale_neighbours(evidence)
    yield from rule_learnt_neighbour(evidence)


CAUSE = Cause(
    "DG-157",
    __doc__,
    find=rule_any_wrong_neighbour,
    needs=("interfaces",),
    weight=990,
    explains=(
        Explains(
            (*LINKS, *WALLS, *KERNELS, "DG-138", "DG-139", "DG-141", "DG-158"), is_return_path
        ),
    ),
    cases=(
        CauseCase(
            "neighbour-by-hand",
            "ip neigh replace PEER with an unused lladdr, permanent",
            fields=LINK,
        ),
    ),
)
