"""Read the settings of role wireguard, and derive each node's address in the tunnel.

With WireGuard, the address in the tunnel is the node's cluster address, and the tunnel is its interface. The link of
the node stays as it is, and carries only the tunnel's packets.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from fullmesh.faults import Fault
from fullmesh.model import addresses, ports
from fullmesh.model.nics import NodeLink
from fullmesh.model.rails import overlap_networks, pick_pool_address
from fullmesh.model.services import TakenPort
from fullmesh.model.types import ClusterPlan, PlanNode, PlanWireGuard
from fullmesh.observed.links import TUNNEL_INTERFACE
from fullmesh.observed.ports import PortRange
from fullmesh.plain import parse_switch

MANAGE = "wireguard_manage"
NETWORK, ADDRESSES, PORT = "wireguard_network", "wireguard_addresses", "wireguard_port"
SETTINGS = (MANAGE, NETWORK, ADDRESSES, PORT)
# The name of the interface, of its configuration and of its unit (wg-quick@).


@dataclass(frozen=True)
class WireGuardNetwork:
    """The network of the tunnel.

    Attributes:
        network: the addresses of all nodes are in it.
        port: the UDP port on which each node receives.
        members: host -> its address in the tunnel.
    """

    network: addresses.Network
    port: int
    members: Mapping[str, addresses.Interface]

    def as_plan(self) -> PlanWireGuard:
        """Return the part of it that is the same for every list of nodes."""
        return {"interface": TUNNEL_INTERFACE, "network": str(self.network), "port": self.port}


def read_wireguard(
    common: Mapping[str, Any], links: Mapping[str, Sequence[NodeLink]], faults: list[Fault]
) -> WireGuardNetwork | None:
    """Read the settings. Return None if WireGuard is off or cannot be configured. Errors go to *faults*.

    Args:
        common: the cluster-wide settings.
        links: host -> its links. The first one carries the tunnel.
        faults: gets an entry for each error.
    """
    if not parse_switch(common[MANAGE]):
        return None
    before = len(faults)
    port = _read_port(common[PORT], faults)
    network = _read_network(common[NETWORK], faults)
    if network is None:
        return None
    _find_overlaps(network, links, faults)
    members = _read_members(network, common[ADDRESSES], links, faults)
    if len(faults) > before or port is None:
        return None
    return WireGuardNetwork(network, port, members)


def _read_port(value: Any, faults: list[Fault]) -> int | None:
    try:
        return ports.parse_port(value)
    except ValueError as error:
        faults.append(Fault("PL-142", f"{PORT}: {error}", "Choose a free port, such as 29820"))
        return None


def _read_network(value: Any, faults: list[Fault]) -> addresses.Network | None:
    try:
        network = addresses.parse_network(value)
        if network.is_loopback or network.is_multicast or network.is_link_local:
            raise ValueError(f"{network} has no addresses for hosts")
    except ValueError as error:
        step = "Write a private network that nothing else uses, such as 10.86.0.0/16"
        faults.append(Fault("PL-142", f"{NETWORK}: {error}", step))
        return None
    return network


def _find_overlaps(
    network: addresses.Network, links: Mapping[str, Sequence[NodeLink]], faults: list[Fault]
) -> None:
    """Find networks of the plan that share addresses with the tunnel's."""
    held = {
        (value.network, link.interface or link.mac or "the cluster address")
        for own in links.values()
        for link in own
        for value in link.addresses
    }
    faults += [
        Fault(
            "PL-144",
            f"{NETWORK}: {network} overlaps {other} of {nic}",
            "Choose a network that no interface of a node uses",
        )
        for other, nic in sorted(held, key=str)
        if overlap_networks(network, other)
    ]


def _read_members(
    network: addresses.Network,
    given: Any,
    links: Mapping[str, Sequence[NodeLink]],
    faults: list[Fault],
) -> dict[str, addresses.Interface]:
    """Read or derive the address of each node."""
    if not isinstance(given, Mapping):
        step = "Write {NODE: 10.86.0.11}, or leave it out"
        faults.append(Fault("PL-143", f"{ADDRESSES} is {given!r}", step))
        return {}
    faults += [
        Fault(
            "PL-143",
            f"{ADDRESSES} names {host!r}, which is not in torch_nodes",
            f"Name one of: {', '.join(links)}",
        )
        for host in given
        if host not in links
    ]
    members: dict[str, addresses.Interface] = {}
    for host, own in links.items():
        if not own:
            continue  # its cluster address is a fault of its own
        try:
            members[host] = (
                _read_address(network, given[host])
                if host in given
                else _derive_address(network, own[0].addresses[0])
            )
        except ValueError as error:
            step = f"Choose another {NETWORK}, or set {ADDRESSES}: {{{host}: ADDRESS}}"
            faults.append(Fault("PL-143", f"{host}: {error}", step))
    _find_duplicates(members, faults)
    return members


def _read_address(network: addresses.Network, value: Any) -> addresses.Interface:
    address = addresses.parse_bare_address(value)
    if address not in network:
        raise ValueError(f"{address} is not in {network}")
    return addresses.parse_prefixed_address(f"{address}/{network.prefixlen}")


def _derive_address(network: addresses.Network, primary: addresses.Interface) -> Any:
    """Take the address at the place that the cluster address has in its network, so that it never changes."""
    place = int(primary.ip) - int(primary.network.network_address)
    try:
        return pick_pool_address(network, place)
    except ValueError as error:
        raise ValueError(f"{error} (the address of its link is {primary})") from error


def _find_duplicates(members: Mapping[str, addresses.Interface], faults: list[Fault]) -> None:
    owners: dict[addresses.Interface, list[str]] = {}
    for host, address in members.items():
        owners.setdefault(address, []).append(host)
    faults += [
        Fault(
            "PL-143",
            f"{' and '.join(hosts)} would all have {address.ip} in the tunnel",
            f"Set {ADDRESSES} for all but one of them",
        )
        for address, hosts in owners.items()
        if len(hosts) > 1
    ]


def find_wireguard_conflicts(
    network: WireGuardNetwork, rails: object, ssh: Mapping[str, str], faults: list[Fault]
) -> None:
    """Find other settings that cannot be combined with WireGuard.

    Args:
        network: the tunnel's network.
        rails: ``fullmesh_rails``, of which RDMA is the purpose.
        ssh: host -> the address that ssh uses, or "" if the inventory sets none.
        faults: gets an entry for each conflict.
    """
    if rails:
        text = f"{MANAGE} is on, but fullmesh_rails has networks for RDMA, which WireGuard does not encrypt"
        faults.append(Fault("PL-145", text, f"Remove fullmesh_rails or {MANAGE}"))
    for host, written in ssh.items():
        if (
            addresses.is_address(written)
            and addresses.parse_bare_address(written) in network.network
        ):
            text = f"{host}: ssh uses {written}, which is in {NETWORK} ({network.network})"
            step = "Give ssh an address outside of it, because undo removes the tunnel"
            faults.append(Fault("PL-144", text, step))


def list_taken_ports(network: WireGuardNetwork | None) -> list[TakenPort]:
    """List the port that no service may use."""
    if network is None:
        return []
    return [TakenPort(PORT, PortRange(network.port, network.port), protocol="udp")]


# --- the plan -------------------------------------------------------------------------------------


def get_link_address(node: PlanNode) -> str:
    """Return the address of a node on its own NIC. Without WireGuard, that is its cluster address."""
    return node["links"][0]["addresses"][0].partition("/")[0]


def map_link_addresses(plan: ClusterPlan) -> dict[str, str]:
    """Map each node to the address of its own NIC."""
    return {name: get_link_address(node) for name, node in plan["nodes"].items()}


def list_tunnel_peers(plan: ClusterPlan) -> list[str]:
    """List the addresses from which a node receives the tunnel's packets. Empty without WireGuard."""
    return list(map_link_addresses(plan).values()) if "wireguard" in plan else []


def list_tunnel_ports(plan: ClusterPlan) -> list[str]:
    """List the ports that `list_tunnel_peers` may reach, as firewalld writes them."""
    return [f"{plan['wireguard']['port']}/udp"] if "wireguard" in plan else []
