"""Read the cluster's rails (``fullmesh_rails``), and derive each node's links on them.

A rail is a network of its own for collectives: one NIC per node at a switch, or cables between pairs of nodes. Its
addresses follow from the inventory, so a node that joins or leaves changes no other node.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from fullmesh import node_values
from fullmesh.faults import Fault
from fullmesh.model import addresses
from fullmesh.model.nics import NodeLink, read_mtu
from fullmesh.model.types import PlanRail
from fullmesh.observed.links import RAIL_TABLE, RAIL_TABLES

SETTING = "fullmesh_rails"
FIELDS = frozenset({"name", "nic", "pool", "addresses", "mtu", "cables"})
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,31}\Z")
# A shell pattern for the name of a NIC. It must match exactly one on each node.
PATTERN = re.compile(r"[A-Za-z0-9_.*?\[\]-]{1,32}\Z")
WILDCARDS = frozenset("*?[")
ENDS = 2  # of a cable
# RoCE v2 (InfiniBand Architecture Specification, annex A17): the UDP port that a receiver listens on.
ROCE_PORT = "4791/udp"

Links = dict[str, list[NodeLink]]


@dataclass(frozen=True)
class RailSegment:
    """One layer-2 network of a rail: a switch with all nodes, or a cable with two.

    Attributes:
        rail: the name in the inventory.
        name: *rail*, and the number of the cable if it has several networks.
        nics: node -> NIC by name, MAC or pattern.
        given: node -> address of a link that the rail adds.
        held: node -> address of the link with this NIC, which becomes the rail's.
        mtu: bytes, 0 leaves it unchanged.
    """

    rail: str
    name: str
    nics: Mapping[str, str]
    given: Mapping[str, addresses.Interface] = field(default_factory=dict)
    held: Mapping[str, addresses.Interface] = field(default_factory=dict)
    mtu: int = 0

    def list_networks(self) -> list[addresses.Network]:
        """List the networks of its addresses, each once."""
        found = {value.network for value in (*self.given.values(), *self.held.values())}
        return sorted(found, key=str)


@dataclass(frozen=True)
class ClusterRails:
    """The rails of the cluster.

    Attributes:
        segments: in the inventory's order.
        pools: rail -> the networks from which its addresses come.
    """

    segments: Sequence[RailSegment] = ()
    pools: Mapping[str, addresses.Network] = field(default_factory=dict)


def read_rails(
    value: Any, links: Mapping[str, Sequence[NodeLink]], faults: list[Fault]
) -> ClusterRails:
    """Read ``fullmesh_rails``. Errors go to *faults*.

    Args:
        value: the setting.
        links: host -> its links without rails. The first one carries the cluster address.
        faults: gets an entry for each error.
    """
    if not isinstance(value, list):
        faults.append(Fault("PL-137", f"{SETTING} is {value!r}", "Use a list of rails"))
        return ClusterRails()
    segments: list[RailSegment] = []
    pools: dict[str, addresses.Network] = {}
    for at, entry in enumerate(value):
        found = RailReader(f"{SETTING}: rail {at}", links, faults)
        segments += found.read_entry(entry)
        if found.pool is not None:
            pools[found.name] = found.pool
    names = Counter(one["name"] for one in value if isinstance(one, Mapping) and "name" in one)
    faults += [
        Fault("PL-137", f"{SETTING}: two rails are called {name}", "Give each its own name")
        for name, count in names.items()
        if count > 1
    ]
    if len(segments) > RAIL_TABLES:
        faults.append(
            Fault(
                "PL-137",
                f"{SETTING} has {len(segments)} networks, at most {RAIL_TABLES} are possible",
                "Remove some of them",
            )
        )
    return ClusterRails(segments, pools)


class RailReader:
    """Reads one entry of ``fullmesh_rails``."""

    def __init__(
        self, where: str, links: Mapping[str, Sequence[NodeLink]], faults: list[Fault]
    ) -> None:
        self.where = where
        self.links = links
        self.faults = faults
        self.name = ""
        self.pool: addresses.Network | None = None
        self.mtu = 0

    def add_fault(self, code: str, text: str, step: str) -> None:
        """Add a fault of this rail."""
        self.faults.append(Fault(code, f"{self.where}: {text}", step))

    def read_entry(self, entry: Any) -> list[RailSegment]:
        """Read the entry. Return its networks, [] if it cannot be read."""
        if not isinstance(entry, Mapping) or not entry.keys() <= FIELDS:
            seen = sorted(map(str, entry.keys() - FIELDS)) if isinstance(entry, Mapping) else entry
            known = f"Known: {', '.join(sorted(FIELDS))}"
            self.add_fault("PL-137", f"cannot read {seen!r}", known)
            return []
        before = len(self.faults)
        self.name = str(entry.get("name") or "")
        if not NAME.match(self.name):
            self.add_fault(
                "PL-137", f"name {self.name!r} is unusable", "Use letters, digits, - and _"
            )
        else:
            self.where = f"{SETTING}: {self.name}"
        self.mtu = read_mtu(self.where, entry.get("mtu", 0), self.faults)
        if entry.get("pool") is not None:
            self.read_pool(entry["pool"])
        segments = self.read_cables(entry) if "cables" in entry else self.read_switched(entry)
        return segments if len(self.faults) == before else []

    def read_pool(self, value: Any) -> None:
        """Read the network from which the rail's addresses come."""
        try:
            pool = addresses.parse_network(value)
            if pool.is_loopback or pool.is_multicast or pool.is_link_local:
                raise ValueError(f"{pool} has no addresses for hosts")
            self.pool = pool
        except ValueError as error:
            self.add_fault("PL-137", f"pool: {error}", "Write a network, such as 10.10.0.0/24")

    def read_nic(self, host: str, value: Any) -> str:
        """Read a NIC: a name, a MAC or a pattern."""
        text = str(value)
        if node_values.MAC.match(text):
            return text.lower()
        if node_values.INTERFACE_NAME.match(text) or PATTERN.match(text):
            return text
        self.add_fault(
            "PL-137",
            f"{host}: {text!r} is not the name, MAC or pattern of a NIC",
            "See `ip -br link` on the node",
        )
        return ""

    # -- one NIC per node, at a switch

    def read_switched(self, entry: Mapping[str, Any]) -> list[RailSegment]:
        """Read a rail with one NIC per node."""
        nic = entry.get("nic")
        nics = nic if isinstance(nic, Mapping) else dict.fromkeys(self.links, nic or "")
        self.refuse_unknown_hosts("nic", nics)
        for host in self.links:
            if not nics.get(host):
                step = "Give nic one name for all nodes, or one for each: {NODE: NIC}"
                self.add_fault("PL-138", f"{host} has no NIC", step)
        named = {host: self.read_nic(host, nics[host]) for host in self.links if nics.get(host)}
        held = {}
        for host, one in named.items():
            link = find_nic_link(self.links[host], one)
            if link is not None and link.addresses:
                held[host] = link.addresses[0]
        given = self.read_addresses(entry.get("addresses"), [h for h in named if h not in held])
        if held and (self.pool is not None or entry.get("addresses") is not None):
            self.add_fault(
                "PL-137",
                f"{', '.join(held)}: the NIC already has the address of a link",
                "Remove pool and addresses of this rail, or name another NIC",
            )
        segment = RailSegment(self.name, self.name, named, given, held, self.mtu)
        networks = segment.list_networks()
        if len(networks) > 1:
            self.add_fault(
                "PL-137",
                f"its addresses are in {' and '.join(map(str, networks))}",
                "Give all nodes of a rail one network",
            )
        return [segment]

    def refuse_unknown_hosts(self, key: str, hosts: Mapping[str, Any]) -> None:
        """Refuse names of nodes that the inventory does not have."""
        for host in hosts:
            if host not in self.links:
                self.add_fault(
                    "PL-138",
                    f"{key} names {host!r}, which is not in torch_nodes",
                    f"Name one of: {', '.join(self.links)}",
                )

    def read_addresses(self, value: Any, hosts: Sequence[str]) -> dict[str, addresses.Interface]:
        """Read the addresses of *hosts*, or derive them from the pool."""
        if value is None:
            return self.derive_addresses(hosts)
        if self.pool is not None or not isinstance(value, Mapping):
            step = "Give either pool, or addresses: {NODE: 10.10.0.11/24}"
            self.add_fault("PL-137", f"addresses is {value!r}", step)
            return {}
        self.refuse_unknown_hosts("addresses", value)
        found = {}
        for host in hosts:
            try:
                found[host] = addresses.parse_prefixed_address(value[host])
            except KeyError:
                self.add_fault(
                    "PL-138", f"{host} has no address", "Add it to addresses, or give pool"
                )
            except ValueError as error:
                self.add_fault("PL-104", f"{host}: {error}", "Write it like 10.10.0.11/24")
        return found

    def derive_addresses(self, hosts: Sequence[str]) -> dict[str, addresses.Interface]:
        """Take each address from the pool: at the place that the cluster address has in its network."""
        if self.pool is None:
            if hosts:
                step = "Give the rail a pool, such as 10.10.0.0/24, or addresses for each node"
                self.add_fault("PL-138", f"{', '.join(hosts)} has no address", step)
            return {}
        found = {}
        for host in hosts:
            primary = self.links[host][0].addresses[0] if self.links[host] else None
            if primary is None:
                continue  # its cluster address is a fault of its own
            place = int(primary.ip) - int(primary.network.network_address)
            try:
                found[host] = pick_pool_address(self.pool, place)
            except ValueError as error:
                step = "Use a larger pool, or give addresses for each node"
                self.add_fault(
                    "PL-139", f"{host}: {error} (its cluster address is {primary})", step
                )
        return found

    # -- cables between pairs of nodes

    def read_cables(self, entry: Mapping[str, Any]) -> list[RailSegment]:
        """Read a rail that consists of cables. Each cable and each twin gets a network from the pool."""
        pool = self.pool
        if "nic" in entry or "addresses" in entry or pool is None:
            step = "Give a rail with cables a pool, and name the NICs in the cables"
            self.add_fault("PL-137", "cables need a pool, and have no nic or addresses", step)
            return []
        value = entry["cables"]
        pairs = [self.read_cable(one) for one in (value if isinstance(value, list) else [value])]
        if not all(pairs):
            return []
        self.check_ring([tuple(pair) for pair in pairs])
        ends = [
            {host: nics[twin] for host, nics in pair.items()}
            for pair in pairs
            for twin in range(len(next(iter(pair.values()))))
        ]
        networks = self.split_pool(pool, len(ends))
        return [
            RailSegment(
                self.name,
                f"{self.name}/{at}",
                nics,
                {host: pick_pool_address(net, end) for end, host in enumerate(nics, 1)},
                mtu=self.mtu,
            )
            for at, (nics, net) in enumerate(zip(ends, networks, strict=False), 1)
        ]

    def read_cable(self, value: Any) -> dict[str, list[str]]:
        """Read a cable: both nodes with their NICs, as many at each end. Return {} if it is malformed."""
        step = "Write {NODE1: NIC, NODE2: NIC}, or a list of NICs if a port has twins"
        if not isinstance(value, Mapping) or len(value) != ENDS:
            self.add_fault("PL-137", f"cable {value!r} does not have two ends", step)
            return {}
        self.refuse_unknown_hosts("a cable", value)
        found = {
            str(host): [
                self.read_nic(str(host), one)
                for one in (nics if isinstance(nics, list) else [nics])
            ]
            for host, nics in value.items()
        }
        if len({len(nics) for nics in found.values()}) > 1 or not all(found.values()):
            self.add_fault(
                "PL-137", f"cable {value!r} has ends with different numbers of NICs", step
            )
            return {}
        return found

    def split_pool(self, pool: addresses.Network, count: int) -> list[addresses.Network]:
        """Split the pool into *count* networks of two addresses."""
        length = pool.max_prefixlen - 2
        room = 2 ** (length - pool.prefixlen) if length >= pool.prefixlen else 0
        if room < count:
            self.add_fault(
                "PL-139",
                f"{pool} has room for {room} networks, but the cables need {count}",
                f"Use a pool with a prefix of at most /{length - (count - 1).bit_length()}",
            )
            return []
        networks: Iterator[addresses.Network] = pool.subnets(new_prefix=length)
        return [next(networks) for _ in range(count)]

    def check_ring(self, cables: Sequence[tuple[str, ...]]) -> None:
        """Refuse cables that join the nodes neither to a ring nor each with each."""
        neighbors: dict[str, set[str]] = {host: set() for host in self.links}
        for one, other in cables:
            neighbors.setdefault(one, set()).add(other)
            neighbors.setdefault(other, set()).add(one)
        others = len(neighbors) - 1
        if all(len(near) == others for near in neighbors.values()):
            return
        what = [
            f"{host} has cables to {', '.join(sorted(near)) or 'no node'}"
            for host, near in neighbors.items()
            if len(near) != ENDS
        ]
        reached = walk_cables(neighbors)
        if not what and len(reached) < len(neighbors):
            what = [f"{', '.join(reached)} form a ring without the other nodes"]
        if what:
            step = "Each node needs cables to two others, so that all form one ring, or to every other node"
            self.add_fault("PL-141", "; ".join(what), step)


def walk_cables(neighbors: Mapping[str, set[str]]) -> list[str]:
    """Return the nodes that cables join to the first one, in order."""
    found = list(neighbors)[:1]
    for host in found:
        found += sorted(neighbors[host] - {*found})
    return found


def pick_pool_address(pool: addresses.Network, place: int) -> addresses.Interface:
    """Return the address at *place* in *pool*.

    Raises:
        ValueError: it is outside, or no host may have it.
    """
    if place >= pool.num_addresses:
        raise ValueError(f"{pool} is too small for address {place}")
    return addresses.parse_prefixed_address(f"{pool[place]}/{pool.prefixlen}")


def find_nic_link(links: Sequence[NodeLink], nic: str) -> NodeLink | None:
    """Return the link that names a NIC by the same name or MAC."""
    return next((link for link in links if nic and nic in (link.interface, link.mac)), None)


# --- the nodes' links -----------------------------------------------------------------------------


def add_rail_links(
    links: Mapping[str, Sequence[NodeLink]], rails: ClusterRails, faults: list[Fault]
) -> Links:
    """Return the links with those of the rails. Rails that conflict with each other or with links are faults."""
    result: Links = {host: list(own) for host, own in links.items()}
    shared = find_shared_networks(rails)
    for at, segment in enumerate(rails.segments):
        in_shared = not shared.isdisjoint(map(str, segment.list_networks()))
        table = RAIL_TABLE + at if in_shared else 0
        for host, nic in segment.nics.items():
            if not result[host]:
                continue  # a rail must not become the cluster's link
            own = find_nic_link(result[host], nic)
            if own is not None and host in segment.held and not own.rail:
                link = join_rail(host, own, segment, table, faults)
                result[host][result[host].index(own)] = link
            elif own is not None:
                other = f"rail {own.rail}" if own.rail else "a link"
                faults.append(explain_used_nic(host, nic, segment.name, other))
            elif host in segment.given:
                result[host].append(make_rail_link(segment, nic, segment.given[host], table))
    find_rail_conflicts(result, rails, faults)
    return result


def make_rail_link(
    segment: RailSegment, nic: str, address: addresses.Interface, table: int
) -> NodeLink:
    """Make a node's link on a rail."""
    by_mac, wild = bool(node_values.MAC.match(nic)), bool(WILDCARDS & set(nic))
    return NodeLink(
        interface="" if by_mac or wild else nic,
        mac=nic if by_mac else "",
        addresses=(address,),
        mtu=segment.mtu,
        rail=segment.name,
        table=table,
        pattern=nic if wild else "",
    )


def join_rail(
    host: str, link: NodeLink, segment: RailSegment, table: int, faults: list[Fault]
) -> NodeLink:
    """Make an existing link of a host part of a rail. Only one of the two may have an MTU, or both have the same."""
    if link.mtu and segment.mtu and link.mtu != segment.mtu:
        nic = link.interface or link.mac
        text = f"{SETTING}: {segment.name} has MTU {segment.mtu}, but {nic} of {host} {link.mtu}"
        faults.append(Fault("PL-137", text, "Give only one of the two an MTU"))
    return replace(link, mtu=link.mtu or segment.mtu, rail=segment.name, table=table)


def explain_used_nic(host: str, nic: str, rail: str, other: str) -> Fault:
    """Explain that two rails, or a rail and a link, use one NIC."""
    return Fault(
        "PL-138",
        f"{SETTING}: {rail}: {nic} of {host} already belongs to {other}",
        "Name another NIC. Each rail needs its own NIC on every node",
    )


def find_shared_networks(rails: ClusterRails) -> set[str]:
    """Return the networks of two or more rails. Their nodes need a routing table per rail."""
    counted = Counter(str(one) for segment in rails.segments for one in segment.list_networks())
    return {network for network, count in counted.items() if count > 1}


def find_rail_conflicts(
    made: Mapping[str, Sequence[NodeLink]],
    rails: ClusterRails,
    faults: list[Fault],
) -> None:
    """Find NICs that a bond and a rail use, and networks that overlap."""
    for host, own in made.items():
        members = {one for link in own if link.bond for one in link.bond.members}
        for link in own:
            for nic in sorted({link.interface, link.mac} & members) if link.rail else ():
                faults.append(explain_used_nic(host, nic, link.rail, "a bond"))
    find_overlapping_pools(rails, faults)
    find_mixed_families(rails, faults)
    rest = {
        (value.network, link.interface or link.mac or "the cluster address")
        for host, own in made.items()
        for link in own
        if not link.rail
        for value in link.addresses
    }
    for segment in rails.segments:
        networks = segment.list_networks()
        for network, nic in sorted(rest, key=str):
            if any(overlap_networks(one, network) for one in networks):
                faults.append(
                    Fault(
                        "PL-140",
                        f"{SETTING}: {segment.name} overlaps {network} of {nic}",
                        "Give the rail another network, or make that NIC a rail with an address of its own",
                    )
                )


def find_mixed_families(rails: ClusterRails, faults: list[Fault]) -> None:
    """Refuse rails of both address families: NCCL_IB_ADDR_FAMILY is one value for all devices."""
    names: dict[int, list[str]] = {}
    for segment in rails.segments:
        for network in segment.list_networks():
            names.setdefault(network.version, []).append(segment.name)
    if len(names) > 1:
        held = " and ".join(
            f"{', '.join(dict.fromkeys(names[version]))} IPv{version}" for version in sorted(names)
        )
        step = "Use one family for all rails, because NCCL uses RoCE with one family only"
        faults.append(Fault("PL-137", f"{SETTING}: {held} addresses", step))


def overlap_networks(one: addresses.Network, other: addresses.Network) -> bool:
    """Return whether two networks share addresses."""
    same = one.version == other.version
    return same and (one.network_address in other or other.network_address in one)


def find_overlapping_pools(rails: ClusterRails, faults: list[Fault]) -> None:
    """Find rails whose networks overlap. Two rails may share a whole network if both have given addresses."""
    spans: list[tuple[str, addresses.Network, bool]] = [
        (name, pool, True) for name, pool in rails.pools.items()
    ]
    for segment in rails.segments:
        if segment.rail not in rails.pools:
            spans += [(segment.name, network, False) for network in segment.list_networks()]
    for at, (name, network, pooled) in enumerate(spans):
        for other, second, also in spans[:at]:
            # a routing table per rail tells them apart. IPv6 has no arp_announce, so there each needs a network
            told_apart = network == second and not (pooled or also) and network.version == 4  # noqa: PLR2004
            if told_apart or not overlap_networks(network, second):
                continue
            faults.append(
                Fault(
                    "PL-140",
                    f"{SETTING}: {other} and {name} overlap ({second}, {network})",
                    "Give each rail a network of its own. Rails in one IPv4 network need addresses instead of a pool",
                )
            )


# --- the plan -------------------------------------------------------------------------------------


def build_plan_rails(
    rails: ClusterRails, links: Mapping[str, Sequence[NodeLink]]
) -> list[PlanRail]:
    """Build the plan's list of rails: each network with the address of every node on it."""
    result: list[PlanRail] = []
    for segment in rails.segments:
        members: dict[str, str] = {}
        network = ""
        for host in segment.nics:
            for link in links[host]:
                if link.rail == segment.name:
                    members[host] = str(link.addresses[0].ip)
                    network = str(link.addresses[0].network)
        result.append(
            {
                "name": segment.name,
                "network": network,
                "cable": segment.name != segment.rail,
                "members": members,
            }
        )
    return result


def list_rail_peers(rails: Sequence[PlanRail], node: str) -> dict[str, dict[str, str]]:
    """Return the nodes that *node* reaches over each of its rails: rail -> node -> address."""
    return {
        rail["name"]: {host: at for host, at in rail["members"].items() if host != node}
        for rail in rails
        if node in rail["members"]
    }


# How the rails join a node with the others: by one network, by several that each reach every node, by a cable to every
# node, or by cables to its neighbours only.
RailReach = Literal["one", "apart", "mesh", "ring"]


def classify_rail_reach(rails: Sequence[PlanRail], node: str, nodes: Iterable[str]) -> RailReach:
    """Classify how the rails join *node* with the other *nodes*."""
    peers = list_rail_peers(rails, node)
    networks = {rail["network"] for rail in rails if rail["name"] in peers}
    others = {*nodes} - {node}
    if len(networks) <= 1:
        return "one"
    if all(others <= {*reached} for reached in peers.values()):
        return "apart"
    direct = {host for reached in peers.values() for host in reached}
    return "mesh" if others <= direct else "ring"
