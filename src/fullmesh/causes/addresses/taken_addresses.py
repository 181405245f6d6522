"""Find other machines' interfaces that answer for a node's cluster address."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from fullmesh.causes.evidence import ClusterEvidence
from fullmesh.observed.survey import Neighbour
from fullmesh.result.findings import Finding, join_names

SHARED_MACS = ("12:34:56:78:9a:bc",)  # Azure's fabric answers ARP for every machine with this one


def collect_neighbours(evidence: ClusterEvidence) -> dict[str, list[tuple[str, Neighbour]]]:
    """Map each address to the nodes that learnt a hardware address for it, and to their entries."""
    found: dict[str, list[tuple[str, Neighbour]]] = {}
    for name in evidence.plan["nodes"]:
        links = evidence.seen.nodes.get(name, {}).get("links", {})
        for address, entry in links.get("neighbours", {}).get("entries", {}).items():
            if entry["mac"] and not entry.get("by_hand"):
                found.setdefault(address, []).append((name, entry))
    return found


def find_foreign_macs(
    evidence: ClusterEvidence, name: str, seen: Mapping[str, Sequence[tuple[str, Neighbour]]]
) -> dict[str, list[str]]:
    """Map MACs that answered for a node's address but are not its own to the nodes that saw them.

    Args:
        evidence: the cluster's evidence.
        name: the node.
        seen: the entries that all nodes learnt, from :func:`collect_neighbours`.
    """
    own = {nic["mac"] for nic in evidence.list_nics(name)}
    if not own:
        return {}
    found: dict[str, list[str]] = {}
    for mac in evidence.survey(name).get("duplicates", []):
        found.setdefault(mac, []).append(name)
    for other, entry in seen.get(evidence.address(name), []):
        if other == name or entry["mac"] in own:
            continue
        if any(r["node"] == name and r["verdict"] != "open" for r in evidence.records(other)):
            found.setdefault(entry["mac"], []).append(other)
    return {m: who for m, who in found.items() if m not in own and m not in SHARED_MACS}


def find_stale_neighbour(
    evidence: ClusterEvidence, name: str, mac: str, who: Sequence[str]
) -> Finding | None:
    """Find a wrong entry that only one node has, while no other machine answers for the address.

    The peer itself has probed for its address (RFC 5227), so another owner would have answered.
    """
    if len(who) != 1 or who[0] == name or evidence.survey(name).get("duplicates") != []:
        return None
    holder, address = who[0], evidence.address(name)
    return Finding(
        "DG-157",
        "L2",
        f"{holder} sends packets for {name} to {mac}, which is not {name}'s interface, and no other machine answers"
        f" for {address}: the entry is static or out of date",
        node=holder,
        peer=name,
        port="all",
        direction=f"{holder} -> {name}",
        seen=f"{address} lladdr {mac} on {holder} alone",
        expected=join_names(
            [
                c["mac"]
                for c in evidence.list_nics(name)
                if c["name"] == evidence.get_cluster_interface(name)
            ]
        ),
        fix=f"on {holder}: ip neigh del {address} dev {evidence.get_cluster_interface(holder)}. If it comes back, find"
        " the script or service that adds it",
        pairs=((holder, name),),
    )


def list_foreign_macs(evidence: ClusterEvidence) -> Iterator[tuple[str, str, list[str]]]:
    """Yield each node whose address another MAC answers for, that MAC, and the nodes that saw it."""
    seen = collect_neighbours(evidence)
    for name in evidence.nodes:
        found = find_foreign_macs(evidence, name, seen)
        if found:
            mac, who = next(iter(found.items()))
            yield name, mac, who


def map_card_owners(evidence: ClusterEvidence) -> dict[str, str]:
    """Map each hardware address to the node that has it."""
    return {nic["mac"]: name for name in evidence.nodes for nic in evidence.list_nics(name)}
