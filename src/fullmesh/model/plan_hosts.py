"""Read the hosts of the cluster plan: their order, addresses and names, and the controllers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from fullmesh.faults import Fault
from fullmesh.model import addresses
from fullmesh.model.nics import NodeLink

HostSettings = Mapping[str, Any]


def order_hosts(hosts: Mapping[str, HostSettings], master: str, faults: list[Fault]) -> list[str]:
    """Sort the hosts by node rank. By default the master is first, and the others keep the inventory's order."""
    names = list(hosts)
    if master and master not in hosts:
        faults.append(
            Fault(
                "PL-116",
                f"fullmesh_master is {master!r}, which is not in torch_nodes",
                f"Name one of: {', '.join(names)}",
            )
        )
        return names
    given = {
        host: chosen["fullmesh_node_rank"]
        for host, chosen in hosts.items()
        if chosen.get("fullmesh_node_rank") is not None
    }
    if not given:
        return sorted(names, key=lambda host: host != (master or names[0]))
    return order_by_given_ranks(names, given, master, faults)


def order_by_given_ranks(
    names: list[str], given: Mapping[str, Any], master: str, faults: list[Fault]
) -> list[str]:
    """Sort the hosts by their given node ranks. If the ranks do not fit, add a fault and keep the order."""
    ranks = {host: str(rank) for host, rank in given.items()}
    if sorted(ranks.values()) != sorted(str(rank) for rank in range(len(names))):
        seen = ", ".join(f"{host}: {ranks.get(host, 'unset')}" for host in names)
        faults.append(
            Fault(
                "PL-115",
                f"The node ranks are not 0 to {len(names) - 1}, each once ({seen})",
                "Set fullmesh_node_rank on every host or on none",
            )
        )
        return names
    order = sorted(names, key=lambda host: int(ranks[host]))
    if master and order[0] != master:
        faults.append(
            Fault(
                "PL-115",
                f"fullmesh_master is {master}, but node rank 0 is {order[0]}",
                "Rank 0 holds the master port: drop one of the two settings",
            )
        )
    return order


def check_addresses(
    links: Mapping[str, Sequence[NodeLink]], routed: bool, faults: list[Fault]
) -> None:
    """Check that no two hosts share an address and that all primary addresses can reach each other."""
    owners: dict[addresses.Address, list[str]] = {}
    for host, own in links.items():
        for link in own:
            for value in link.addresses:
                owners.setdefault(value.ip, []).append(host)
    for address, names in owners.items():
        if len(names) > 1:
            faults.append(
                Fault(
                    "PL-105",
                    f"{address} is given to {', '.join(names)}",
                    "Use a different address for every node",
                )
            )
    primary = {host: own[0].addresses[0] for host, own in links.items() if own}
    check_primary_addresses(primary, routed, faults)


def check_primary_addresses(
    primary: Mapping[str, addresses.Interface], routed: bool, faults: list[Fault]
) -> None:
    """Check that all primary addresses have one family and, unless *routed*, one network."""
    families = Counter(value.version for value in primary.values())
    seen = ", ".join(f"{host}: {value}" for host, value in primary.items())
    if len(families) > 1:
        # Gloo stops at once with "ss1.ss_family == ss2.ss_family. 2 vs 10" (gloo device.cc:288).
        faults.append(
            Fault(
                "PL-107",
                f"Some cluster addresses are IPv4 and some IPv6 ({seen})",
                "Use the same family for the first address of every node",
            )
        )
    elif not routed and len({value.network for value in primary.values()}) > 1:
        faults.append(
            Fault(
                "PL-106",
                f"The cluster addresses are not in one network ({seen})",
                "Fix the address or prefix, or set fullmesh_routed: true when a router joins them",
            )
        )


def read_controllers(value: Any, faults: list[Fault]) -> list[str]:
    """Read the networks of the controllers. A malformed one is a fault."""
    entries = value if isinstance(value, list) else [value]
    result = []
    for entry in entries:
        try:
            network = addresses.parse_network(entry, strict=False)
        except ValueError:
            faults.append(
                Fault(
                    "PL-118",
                    f"fullmesh_controllers: {entry!r} is neither an address nor a network",
                    "List the addresses from which you manage the nodes",
                )
            )
        else:
            single = network.prefixlen == network.max_prefixlen
            result.append(str(network.network_address) if single else str(network))
    return result


def read_hostnames(hosts: Mapping[str, HostSettings], faults: list[Fault]) -> dict[str, str]:
    """Map each host to its ``fullmesh_hostname``, or "". It must be a valid name and belong to one node."""
    result = {host: str(chosen.get("fullmesh_hostname") or "") for host, chosen in hosts.items()}
    for host, name in result.items():
        if name and not addresses.is_host_name(name):
            faults.append(
                Fault(
                    "PL-119",
                    f"{host}: fullmesh_hostname {name!r} is not a host name",
                    "Use letters, digits, '-' and '.', see RFC 1123",
                )
            )
    for name, count in Counter(filter(None, result.values())).items():
        if count > 1:
            owners = ", ".join(host for host, own in result.items() if own == name)
            faults.append(
                Fault(
                    "PL-119",
                    f"fullmesh_hostname {name!r} is given to {owners}",
                    "Give each its own",
                )
            )
    return result
