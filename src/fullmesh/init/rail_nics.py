"""Select the NICs that could carry rails, and find which of them one cable or switch connects. Pure."""

from __future__ import annotations

import ipaddress
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from fullmesh.foreign_text import parse_decimal
from fullmesh.init import propose
from fullmesh.init.propose import MachineAnswer, Network, NetworkProposal
from fullmesh.observed.first_look import LldpNeighbor
from fullmesh.observed.node import Interface

ETHERNET = "Ethernet"
FAST = 10_000  # Mbit/s: slower NICs are no rails


@dataclass(frozen=True)
class NodeNic:
    """A NIC of a node that could carry a rail.

    Attributes:
        addresses: those that peers could use, with their prefixes.
        chip: of its RDMA device. Two NICs of one chip and one port share a cable.
        cluster: it has the cluster address.
        switch: name and port of the switch, as LLDP shows them. Empty if it shows none.
    """

    host: str
    name: str
    mac: str
    mtu: int
    addresses: tuple[str, ...]
    leased: bool
    rdma: bool
    chip: str
    port: str
    cluster: bool
    switch: tuple[str, str]

    @property
    def order(self) -> tuple[tuple[int, str], ...]:
        """Return a sort key: ens2 before ens10, and enp1s0 before its twin enP2p1s0."""
        return tuple(
            (-1, part.lower()) if (number := parse_decimal(part)) is None else (number, "")
            for part in re.split(r"([0-9]+)", self.name)
        )

    @property
    def network(self) -> Network | None:
        """Return the network of its only address, or None."""
        return ipaddress.ip_interface(self.addresses[0]).network if self.addresses else None


def list_rail_nics(answers: Mapping[str, MachineAnswer], chosen: NetworkProposal) -> list[NodeNic]:
    """List the NICs that could carry rails, RDMA devices only if there are any."""
    found = [
        nic
        for host, answer in answers.items()
        for card in answer.facts["fullmesh"]["interfaces"]
        if (nic := read_rail_nic(host, answer, card, chosen)) is not None
    ]
    rdma = [one for one in found if one.rdma]
    return sorted(rdma or found, key=lambda one: (one.host, one.order))


def read_rail_nic(
    host: str, answer: MachineAnswer, card: Interface, chosen: NetworkProposal
) -> NodeNic | None:
    """Read a NIC, or return None if it cannot carry a rail: virtual, slow, unplugged, or with another purpose."""
    ways, seat = answer.ways, chosen.seats[host]
    cluster = card["name"] == seat.card["name"]
    rdma = is_roce_interface(answer, card["name"])
    port = (
        next((one for one in ways["ports"] if one["nic"] == card["name"]), None) if ways else None
    )
    texts = [text for text in card["addresses"] if not ipaddress.ip_interface(text).is_link_local]
    management = propose.find_ssh_address(answer) in [text.partition("/")[0] for text in texts]
    routed = ways is not None and card["name"] in [one["dev"] for one in ways["defaults"]]
    if card["kind"] or not propose.is_usable_interface(card) or not card["carrier"]:
        return None
    if port is None or port["stacked"]:
        return None
    fast = card["speed"] >= max(FAST, seat.card["speed"])
    if not (rdma if cluster else (rdma or fast) and not management and not routed):
        return None
    return NodeNic(
        host,
        card["name"],
        card["mac"],
        card["mtu"],
        tuple(texts),
        bool(ways and card["name"] in ways["leased"]),
        rdma,
        port["chip"] if port["chip"].strip("0:") else "",
        port["port"],
        cluster,
        find_switch(ways.get("lldp", []) if ways else [], card["name"]),
    )


def find_switch(heard: Sequence[LldpNeighbor], nic: str) -> tuple[str, str]:
    """Return the switch of a NIC and its port. A neighbor without a name for its port is a host."""
    for one in heard:
        if one["nic"] == nic and one["system"] and one["port"] and not one["mac"]:
            return one["system"], one["port"]
    return "", ""


def is_roce_interface(answer: MachineAnswer, card: str) -> bool:
    """Return whether an active RoCE port uses an interface."""
    return any(
        gid["interface"] == card
        for port in answer.facts["fullmesh"]["rdma"]
        for gid in port["gids"]
        if port["active"] and port["layer"] == ETHERNET
    )


def list_unplugged(answers: Mapping[str, MachineAnswer]) -> list[str]:
    """List the NICs of RDMA devices, or of other chips, that have no carrier."""
    return [
        f"{card['name']} of {host}"
        for host, answer in answers.items()
        for card in answer.facts["fullmesh"]["interfaces"]
        if not card["kind"]
        and not card["carrier"]
        and any(
            one["nic"] == card["name"] and one["chip"]
            for one in (answer.ways["ports"] if answer.ways else ())
        )
    ]


def find_twins(nics: Iterable[NodeNic]) -> list[list[NodeNic]]:
    """Return the groups of NICs that are one physical port."""
    found: defaultdict[tuple[str, str, str], list[NodeNic]] = defaultdict(list)
    for one in nics:
        if one.chip and one.port:
            found[one.host, one.chip, one.port].append(one)
    return [group for group in found.values() if len(group) > 1]


def group_connected(
    nics: Sequence[NodeNic], answers: Mapping[str, MachineAnswer]
) -> list[list[NodeNic]]:
    """Group the NICs that one cable or switch connects.

    The neighbors of a NIC decide. A NIC that no neighbor answered belongs to the others in its network.
    """
    owner = map_unique_macs(nics)
    edges = {
        (one, owner[mac])
        for one in nics
        for mac in list_neighbor_macs(answers[one.host], one.name)
        if mac in owner
    }
    heard = {nic for edge in edges for nic in edge if edge[0].host != edge[1].host}
    silent: defaultdict[Network, list[NodeNic]] = defaultdict(list)
    for one in nics:
        if one.network is not None:
            silent[one.network].append(one)
    for group in silent.values():
        edges |= {(group[0], one) for one in group if not {group[0], one} <= heard}
    return join_edges(nics, edges)


def list_neighbor_macs(answer: MachineAnswer, nic: str) -> list[str]:
    """List the hardware addresses that answered on a NIC, or that LLDP has heard there."""
    ways = answer.ways
    heard = [*ways["neighbors"], *ways.get("lldp", [])] if ways else []
    return [one["mac"].lower() for one in heard if one["nic"] == nic]


def map_unique_macs(nics: Sequence[NodeNic]) -> dict[str, NodeNic]:
    """Map each hardware address to its NIC. An address of two NICs identifies none."""
    counted = Counter(one.mac for one in nics)
    return {one.mac: one for one in nics if counted[one.mac] == 1}


def join_edges(
    nics: Sequence[NodeNic], edges: Iterable[tuple[NodeNic, NodeNic]]
) -> list[list[NodeNic]]:
    """Return the groups of connected NICs, each in the order of *nics*."""
    group = {one: {one} for one in nics}
    for one, other in edges:
        if group[one] is not group[other]:
            group[one] |= group[other]
            for member in group[other]:
                group[member] = group[one]
    unique = {id(members): members for members in group.values()}
    return [[one for one in nics if one in members] for members in unique.values()]
