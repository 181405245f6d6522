"""Propose ``fullmesh_rails`` from the machines' answers, with reasons. Pure."""

from __future__ import annotations

import ipaddress
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypedDict

from fullmesh.init import rail_nics
from fullmesh.init.propose import USUAL_MTU, MachineAnswer, Network, NetworkProposal
from fullmesh.init.rail_nics import NodeNic
from fullmesh.model import rails
from fullmesh.result.findings import join_names

# Pools for NICs without addresses. The first ones that no node uses.
POOLS = [
    ipaddress.ip_network(f"10.{second}.{third}.0/24")
    for second in (10, 20, 30)
    for third in range(64)
]
JUMBO = 9000
PAIR = 2  # nodes on a cable
Segment = dict[str, NodeNic]


class ProposedAddresses(TypedDict, total=False):
    """The source of a rail's addresses: a network, or the address of each node."""

    pool: str
    addresses: dict[str, str]


class ProposedRail(ProposedAddresses, total=False):
    """An entry of ``fullmesh_rails`` (docs/rails.md)."""

    name: str
    nic: str | dict[str, str]
    mtu: int
    cables: list[dict[str, str | list[str]]]


class UnclearError(Exception):
    """The answers do not say how the NICs are connected."""


@dataclass(frozen=True)
class RailsProposal:
    """The proposed rails.

    Attributes:
        rails: entries of ``fullmesh_rails``. Empty if the NICs fit none.
        certain: the answers show how the NICs are connected. Otherwise the entries become comments.
        reasons: as sentences.
    """

    rails: Sequence[ProposedRail] = ()
    certain: bool = False
    reasons: Sequence[str] = field(default=())


def propose_rails(
    answers: Mapping[str, MachineAnswer], chosen: NetworkProposal, *, keep_network: bool = False
) -> RailsProposal | None:
    """Propose rails for the NICs that the nodes have next to the one of the cluster.

    Args:
        answers: of all nodes.
        chosen: the cluster's network.
        keep_network: Fullmesh manages no addresses, so it can use those that are there only.

    Returns:
        None if no node has such NICs.
    """
    found = rail_nics.list_rail_nics(answers, chosen)
    held = {host: [one for one in found if one.host == host] for host in answers}
    if len(answers) < PAIR or all(one.cluster for one in found):
        return None
    reasons = [describe_nics(held), *describe_twins(found)]
    if len({len(own) for own in held.values()}) > 1:
        down = rail_nics.list_unplugged(answers)
        reasons += [f"no carrier: {', '.join(down)}"] if down else []
        return RailsProposal(reasons=[*reasons, "the nodes have different numbers of them"])
    made = RailBuilder(answers, chosen, keep_network=keep_network)
    groups = rail_nics.group_connected(found, answers)
    try:
        entries = made.build_entries(find_segments(groups))
    except UnclearError as error:
        made = RailBuilder(answers, chosen, keep_network=keep_network)
        draft = draft_by_name(groups, held, made)
        more = [*made.reasons, *made.doubts] if draft else []
        return RailsProposal(draft, certain=False, reasons=[*reasons, str(error), *more])
    certain = not made.doubts and all(one.rdma for one in found)
    if not all(one.rdma for one in found):
        made.doubts.append("no active RDMA device uses them, and NCCL uses a rail over RDMA only")
    return RailsProposal(entries, certain, [*reasons, *made.reasons, *made.doubts])


def doubt_rails(proposal: RailsProposal, reasons: Sequence[str]) -> RailsProposal:
    """Return the same rails as a draft, with the reasons against them."""
    return RailsProposal(proposal.rails, certain=False, reasons=[*proposal.reasons, *reasons])


def describe_nics(held: Mapping[str, Sequence[NodeNic]]) -> str:
    """Describe the NICs of all nodes in one sentence."""
    names = {host: ", ".join(one.name for one in own) or "none" for host, own in held.items()}
    if len(set(names.values())) == 1:
        return f"every node has these fast NICs: {next(iter(names.values()))}"
    return "fast NICs: " + "; ".join(f"{host}: {text}" for host, text in names.items())


def describe_twins(found: Sequence[NodeNic]) -> Iterator[str]:
    """Describe the ports that show up as several NICs."""
    groups = {tuple(one.name for one in group) for group in rail_nics.find_twins(found)}
    for group in sorted(groups):
        yield f"{' and '.join(group)} are one port, and each needs an address"


# --- which NICs one network connects --------------------------------------------------------------


def find_segments(groups: Sequence[Sequence[NodeNic]]) -> list[Segment]:
    """Return the networks between the NICs, each with at most one NIC of a node.

    Args:
        groups: connected NICs.

    Raises:
        UnclearError: the answers do not show them.
    """
    many = [
        f"{one.name} of {one.host}" for group in groups for one in group if len(one.addresses) > 1
    ]
    if many:
        raise UnclearError(f"several addresses: {', '.join(many)}")
    segments: list[Segment] = []
    alone = [one for group in groups if len({nic.host for nic in group}) == 1 for one in group]
    if alone:
        names = join_names([f"{one.name} of {one.host}" for one in alone])
        raise UnclearError(
            f"no other node answered {names}, so init cannot tell how to connect them"
        )
    for group in groups:
        segments += split_group(group)
    return sorted(segments, key=lambda one: next(iter(one.values())).order)


def split_group(group: Sequence[NodeNic]) -> list[Segment]:
    """Split connected NICs into segments: by their networks if each has one, or in the order of their names.

    Raises:
        UnclearError: neither gives each node one NIC in each.
    """
    by_network: defaultdict[Network | None, list[NodeNic]] = defaultdict(list)
    for one in group:
        by_network[one.network].append(one)
    found: list[Segment] = []
    for members in by_network.values():
        held: defaultdict[str, list[NodeNic]] = defaultdict(list)
        for one in members:
            held[one.host].append(one)
        if len({len(own) for own in held.values()}) > 1 or len(held) == 1:
            shown = ", ".join(
                f"{one.name} of {one.host} has {', '.join(one.addresses) or 'no address'}"
                for one in group
            )
            raise UnclearError(
                f"one switch or cable connects NICs whose addresses do not match: {shown}"
            )
        columns = zip(*held.values(), strict=True)
        found += [{one.host: one for one in column} for column in columns]
    return found


# --- entries of fullmesh_rails --------------------------------------------------------------------


class RailBuilder:
    """Builds the entries of ``fullmesh_rails``, and collects reasons and doubts."""

    def __init__(
        self,
        answers: Mapping[str, MachineAnswer],
        chosen: NetworkProposal,
        *,
        keep_network: bool,
    ) -> None:
        self.hosts = list(answers)
        self.host_names = {
            name
            for answer in answers.values()
            for name in (answer.facts["hostname"], answer.facts["nodename"], answer.facts["fqdn"])
        }
        self.chosen = chosen
        self.keep_network = keep_network
        self.reasons: list[str] = []
        self.doubts: list[str] = []
        used = [
            ipaddress.ip_interface(text).network
            for answer in answers.values()
            for card in answer.facts["fullmesh"]["interfaces"]
            for text in card["addresses"]
        ]
        self.pools = (
            str(pool)
            for pool in POOLS
            if not any(rails.overlap_networks(pool, one) for one in used)
        )

    def build_entries(self, segments: Sequence[Segment]) -> list[ProposedRail]:
        """Build the entries.

        Raises:
            UnclearError: the segments form neither rails nor a ring.
        """
        if all(len(one) == len(self.hosts) for one in segments):
            if any(nic.mtu == USUAL_MTU for one in segments for nic in one.values()):
                self.reasons.append(
                    f"RDMA uses larger packets with mtu: {JUMBO}, if each switch port allows it"
                )
            return [
                self.build_switched(f"rail{at}", one, segments) for at, one in enumerate(segments)
            ]
        return [self.build_ring(segments)]

    def build_switched(
        self, name: str, segment: Segment, segments: Sequence[Segment]
    ) -> ProposedRail:
        """Build the entry for a network with all nodes."""
        members = [segment[host] for host in self.hosts]
        names = {one.host: one.name for one in members}
        same = len(set(names.values())) == 1
        entry: ProposedRail = {"name": name, "nic": members[0].name if same else names}
        self.reasons += [f"{name}: {text}" for text in self.describe_switches(members)]
        if not all(one.cluster for one in members):
            if any(one.cluster for one in members):
                raise UnclearError(f"{describe_ends(members)} connect a cluster NIC with others")
            entry = {**entry, **self.build_addresses(name, members, segments)}
        mtus = {one.mtu for one in members}
        if mtus != {USUAL_MTU}:
            if len(mtus) > 1:
                self.doubts.append(f"{name}: different MTUs, {', '.join(map(str, sorted(mtus)))}")
            else:
                entry["mtu"] = mtus.pop()
        return entry

    def build_addresses(
        self, name: str, members: Sequence[NodeNic], segments: Sequence[Segment]
    ) -> ProposedAddresses:
        """Return the addresses that the NICs have, or a pool for new ones."""
        present = {one.host: one.addresses[0] for one in members if one.addresses}
        leased = [one.host for one in members if one.leased]
        if leased:
            self.reasons.append(
                f"{name}: DHCP assigned the address of {', '.join(leased)}: Fullmesh makes it static, so reserve it"
            )
        networks = {one.network for one in members if one.addresses}
        if len(networks) > 1:
            raise UnclearError(f"{name}: addresses of {join_names(sorted(map(str, networks)))}")
        if not present:
            return self.build_pool(name)
        network = networks.pop()
        derived = self.derive_pool_addresses(str(network))
        if len(present) == len(members):
            sharing = [one for one in segments if next(iter(one.values())).network == network]
            if len(sharing) > 1:
                self.reasons.append(f"{name}: other rails are in {network} as well")
            elif present == derived:
                return {"pool": str(network)}
            return {"addresses": present}
        self.doubts.append(f"{name}: only {', '.join(present)} has an address on it")
        if present.items() <= derived.items():
            return {"pool": str(network)}
        raise UnclearError(f"{name}: init cannot derive the other addresses from {network}")

    def take_pool(self, name: str) -> str:
        """Return a network that no node uses."""
        if self.keep_network:
            self.doubts.append(f"{name}: needs new addresses, but static_ip_manage is false")
        pool = next(self.pools, "")
        if not pool:
            raise UnclearError("no network for new addresses is free")
        self.reasons.append(f"{name}: new addresses from {pool}, which no node uses")
        return pool

    def build_pool(self, name: str) -> ProposedAddresses:
        """Return a new network, with addresses if the nodes' host numbers do not fit."""
        pool = self.take_pool(name)
        if self.derive_pool_addresses(pool):
            return {"pool": pool}
        first = ipaddress.ip_network(pool)
        return {
            "addresses": {
                host: f"{first[at]}/{first.prefixlen}" for at, host in enumerate(self.hosts, 1)
            }
        }

    def derive_pool_addresses(self, pool: str) -> dict[str, str]:
        """Return the addresses that the plan derives from a pool, {} if the pool is too small."""
        found = {}
        for host in self.hosts:
            held = ipaddress.ip_interface(self.chosen.seats[host].address)
            place = int(held.ip) - int(held.network.network_address)
            try:
                address = rails.pick_pool_address(ipaddress.ip_network(pool), place)
            except ValueError:
                return {}
            found[host] = str(address)
        return found

    def build_ring(self, segments: Sequence[Segment]) -> ProposedRail:
        """Build the entry for cables between pairs of nodes."""
        pairs: defaultdict[tuple[str, ...], list[Segment]] = defaultdict(list)
        for one in segments:
            pairs[tuple(host for host in self.hosts if host in one)].append(one)
        shown = "; ".join(describe_ends(list(one.values())) for one in segments)
        near = {
            host: {other for pair in pairs if host in pair for other in pair} for host in self.hosts
        }
        ring = len(rails.walk_cables({host: own - {host} for host, own in near.items()}))
        degrees = {len(own) - 1 for own in near.values()}
        whole = ring == len(self.hosts) and degrees in ({PAIR}, {len(self.hosts) - 1})
        if not whole or any(len(pair) != PAIR for pair in pairs) or self.has_cluster_nic(segments):
            raise UnclearError(f"the NICs form neither rails with all nodes nor a ring: {shown}")
        self.reasons.append(f"cables without a switch: {shown}")
        if any(nic.addresses for one in segments for nic in one.values()):
            self.reasons.append("each cable gets a network of its own, so addresses change")
        cables: list[dict[str, str | list[str]]] = []
        for pair, members in pairs.items():
            ends = {host: [one[host].name for one in members] for host in pair}
            cables.append({host: own[0] if len(own) == 1 else own for host, own in ends.items()})
        return {"name": "ring", "pool": self.take_pool("ring"), "mtu": JUMBO, "cables": cables}

    def describe_switches(self, members: Sequence[NodeNic]) -> Iterator[str]:
        """Describe the switches and ports that LLDP shows on the NICs of a rail. Other nodes are no switches."""
        ports: defaultdict[str, list[str]] = defaultdict(list)
        for one in members:
            switch, port = one.switch
            if switch and switch not in self.host_names:
                ports[switch].append(f"{one.host} at {port}")
        for switch, held in ports.items():
            yield f"LLDP shows the switch {switch}, with {join_names(held)}"

    @staticmethod
    def has_cluster_nic(segments: Sequence[Segment]) -> bool:
        """Return whether a segment has a NIC of the cluster network."""
        return any(nic.cluster for one in segments for nic in one.values())


def describe_ends(members: Sequence[NodeNic]) -> str:
    """Describe the NICs of one network."""
    return " - ".join(f"{one.host} {one.name}" for one in members)


def draft_by_name(
    groups: Sequence[Sequence[NodeNic]], held: Mapping[str, Sequence[NodeNic]], made: RailBuilder
) -> Sequence[ProposedRail]:
    """Return rails of the NICs with equal names: a draft, [] if the names differ or the answers contradict it."""
    names = [[one.name for one in own] for own in held.values()]
    for group in groups:
        by_host = {host: {one.name for one in group if one.host == host} for host in held}
        seen = [own for own in by_host.values() if own]
        if any(own != seen[0] for own in seen):
            return []
    if any(own != names[0] for own in names):
        return []
    try:
        return made.build_entries(
            [{host: own[at] for host, own in held.items()} for at in range(len(names[0]))]
        )
    except UnclearError:
        return []
