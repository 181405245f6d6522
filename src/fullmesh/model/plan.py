"""Derive the cluster plan, the data that all nodes must agree on, from the inventory.

Pure functions. The filter calls :func:`derive_from_hostvars`. :func:`derive_plan` does the work on plain data. It
collects all faults of the inventory and raises them together, before Fullmesh changes a node.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from fullmesh import settings
from fullmesh.code_digest import compute_code_digest
from fullmesh.faults import Fault, InvalidInputError
from fullmesh.foreign_text import parse_decimal
from fullmesh.model import (
    addresses,
    auto,
    batching,
    choices,
    membership,
    plan_hosts,
    plan_ports,
    ports,
    rails,
    services,
    wireguard,
)
from fullmesh.model.nics import NodeLink, read_node_links
from fullmesh.model.plan_hosts import HostSettings
from fullmesh.model.types import AutoSettings, ClusterPlan, HostsLine, PlanNode, ServicePort
from fullmesh.observed.links import TUNNEL_INTERFACE
from fullmesh.observed.ports import PortRange
from fullmesh.plain import to_json_value

SCHEMA = 1
GROUP = "torch_nodes"
CODES = {
    "PL-100": "The group torch_nodes is empty",
    "PL-101": "A setting with one of Fullmesh's prefixes is unknown",
    "PL-102": "A setting that is derived from the plan was set by hand",
    "PL-103": "A node has no cluster address",
    "PL-104": "An address is malformed or unusable",
    "PL-105": "Two nodes have the same address",
    "PL-106": "The cluster addresses are in different networks",
    "PL-107": "The cluster addresses mix IPv4 and IPv6",
    "PL-108": "A cluster-wide setting differs between hosts",
    "PL-109": "A port is malformed or privileged",
    "PL-110": "A named port is inside the data range",
    "PL-111": "Two named ports are equal",
    "PL-112": "The data range is malformed",
    "PL-113": "The data range is too small for the ranks",
    "PL-114": "The number of ranks or process groups is malformed",
    "PL-115": "The node ranks do not count from 0",
    "PL-116": "The master is not in the group",
    "PL-117": "A link is malformed",
    "PL-118": "A controller address is malformed",
    "PL-119": "A host name is malformed or used twice",
    "PL-120": "A setting has a value that does not exist",
    "PL-121": "The controller's ansible-core is not supported",
    "PL-123": "A gateway, route, MTU or name server is malformed",
    "PL-124": "A VLAN is malformed",
    "PL-125": "A bond is malformed",
    "PL-126": "A NIC is a member of a bond and used for something else too",
    "PL-127": "A VLAN conflicts with its parent or another link",
    "PL-128": "The number of nodes at a time is malformed",
    "PL-129": "An address for ssh is malformed",
    "PL-130": "A service is malformed or unknown",
    "PL-131": "A port of a service is malformed or privileged",
    "PL-132": "The clients that may reach a service are malformed",
    "PL-133": "A service is on a node that is not in the group",
    "PL-134": "A name is one letter away from a setting",
    "PL-135": "The inventory has fewer or more nodes than the cluster",
    "PL-136": "Another setting replaces this one since version 0.3",
    "PL-137": "A rail is malformed",
    "PL-138": "A rail has no NIC or no address on a node, or its NIC is used for something else too",
    "PL-139": "The address pool of a rail is too small",
    "PL-140": "The networks of two rails, or of a rail and a link, overlap",
    "PL-141": "The cables of a rail do not join the nodes to a ring",
    "PL-142": "The network or port of WireGuard is malformed",
    "PL-143": "A node has no usable address in the network of WireGuard",
    "PL-144": "The network of WireGuard overlaps another one",
    "PL-145": "Rails are for RDMA, which WireGuard does not encrypt",
}
ACCELERATOR = "torch_runtime_accelerator"
LOWEST_ANSIBLE, HIGHEST_ANSIBLE = [2, 16], [2, 22]


class InventorySsh(NamedTuple):
    """The port and address of a host's sshd in the inventory: None and "" if it does not set them."""

    port: int | None = None
    address: str = ""


@dataclass(frozen=True)
class PlanParts:
    """The values from the settings, before they become the plan.

    Attributes:
        order: hosts by node rank.
        links: host -> its links. The first one carries the cluster address.
        rails: networks for collectives, with links of their own.
        counts: host -> local ranks, 1 for auto.
        asked: host -> the settings that the survey resolves.
        made_for: host -> the accelerator of its torch build, or auto.
        groups: process groups that a job makes.
        hostnames: host -> ``fullmesh_hostname`` or "".
        named: setting -> port.
        data: the data range.
        services: ports of the services on the nodes.
        controllers: addresses and networks that must never be locked out.
        leads_time: whether the nodes synchronize with one of them (role time_sync), which opens NTP to peers.
        tunnel: the network of role wireguard, None if it is off.
    """

    order: Sequence[str]
    links: Mapping[str, Sequence[NodeLink]]
    rails: rails.ClusterRails
    counts: Mapping[str, int]
    asked: Mapping[str, AutoSettings]
    made_for: Mapping[str, str]
    groups: int
    hostnames: Mapping[str, str]
    named: Mapping[str, int]
    data: PortRange
    services: Sequence[ServicePort]
    controllers: Sequence[str]
    leads_time: bool
    tunnel: wireguard.WireGuardNetwork | None = None

    def get_cluster_address(self, host: str) -> addresses.Interface:
        """Return the address that the peers use: in the tunnel if there is one, else of the first link."""
        return self.tunnel.members[host] if self.tunnel else self.links[host][0].addresses[0]


def derive_from_hostvars(
    hostvars: Any, hosts: Sequence[str], root: Path = settings.ROOT
) -> ClusterPlan:
    """Derive the plan from Ansible's ``hostvars``.

    Args:
        hostvars: host name -> its variables (only values of Fullmesh's settings are read).
        hosts: the members of ``torch_nodes`` in inventory order.
        root: the checkout, for the roles' argument specs and the code's digest.

    Raises:
        InvalidInputError: with every fault of the inventory.
    """
    names = settings.load_setting_names(root)
    faults: list[Fault] = []
    chosen: dict[str, dict[str, Any]] = {}
    doors: dict[str, InventorySsh] = {}
    for host in hosts:
        variables = hostvars[host]
        faults += settings.find_setting_faults(host, variables, names)
        port = parse_decimal(str(variables.get("ansible_port", "")))
        doors[host] = InventorySsh(port, str(variables.get("ansible_host", "")))
        chosen[host] = {
            name: to_json_value(variables[name])
            for name in settings.select_own_names(variables, names)
            if name in names.settable
        }
    defaults = settings.load_role_defaults(root)
    return derive_plan(
        chosen, faults=faults, code=compute_code_digest(root), defaults=defaults, ssh=doors
    )


def find_controller_faults(ansible_core: str) -> list[Fault]:
    """Return a fault if the roles do not support the controller's ansible-core.

    2.16 is the last version that manages Python 3.6 and 2.7 nodes (EL 7 and 8). 2.22 is the newest tested one.
    """
    numbers = [int(part) for part in re.findall(r"\d+", ansible_core)[:2]]
    if LOWEST_ANSIBLE <= numbers <= HIGHEST_ANSIBLE:
        return []
    return [
        Fault(
            "PL-121",
            f"ansible-core {ansible_core} is not supported",
            "Use 2.16 to 2.22: pip install -r requirements.txt",
        )
    ]


def find_group_faults(groups: Mapping[str, Sequence[str]]) -> list[Fault]:
    """Return a fault if ``torch_nodes`` is empty. It lists the groups that have hosts."""
    if groups.get(GROUP):
        return []
    others = [name for name, hosts in groups.items() if hosts and name != "all"]
    return [
        Fault(
            "PL-100",
            f"The inventory has no hosts in group {GROUP} (groups with hosts: {', '.join(others) or 'none'})",
            "Add your hosts to it (see inventory/prod), or run ./fullmesh init",
        )
    ]


def derive_plan(
    hosts: Mapping[str, HostSettings],
    *,
    faults: Sequence[Fault] = (),
    code: str = "",
    defaults: Mapping[str, Any] | None = None,
    ssh: Mapping[str, InventorySsh] | None = None,
) -> ClusterPlan:
    """Derive the plan (see docs/architecture.md for its shape).

    Args:
        hosts: host name -> its settings (``fullmesh_*`` and the roles'), in inventory order.
        faults: faults that were already found (unknown names).
        code: digest of the code that will run.
        defaults: the defaults of the roles. None reads them from this checkout.
        ssh: host -> its sshd.

    Raises:
        InvalidInputError: with every fault.
    """
    found = list(faults)
    if not hosts:
        found.append(Fault("PL-100", f"The group {GROUP} has no hosts", "Add your hosts to it"))
        raise InvalidInputError(found)
    given = settings.load_role_defaults() if defaults is None else defaults
    common = _read_common_settings(hosts, given, found)
    plain = {host: read_node_links(host, chosen, found) for host, chosen in hosts.items()}
    railed = rails.read_rails(common[rails.SETTING], plain, found)
    links = rails.add_rail_links(plain, railed, found)
    counts = {host: _read_local_ranks(host, chosen, found) for host, chosen in hosts.items()}
    asked = _collect_auto_settings(hosts, given)
    made_for = {host: str(own.get(ACCELERATOR, given[ACCELERATOR])) for host, own in hosts.items()}
    order = plan_hosts.order_hosts(hosts, str(common["fullmesh_master"] or ""), found)
    plan_hosts.check_addresses(links, choices.read_routed(common["fullmesh_routed"], found), found)
    choices.check_node_count(common["fullmesh_expected_nodes"], hosts, found)
    tunnel = _read_tunnel(hosts, common, plain, ssh or {}, found)
    named_ports = plan_ports.read_named_ports(common, found)
    groups = plan_ports.read_process_groups(common, found)
    unknown = any(one["ranks"] for one in asked.values())
    # before the survey, a machine counts as one with the usual number of GPUs
    usual = {host: auto.USUAL_GPUS for host, one in asked.items() if one["ranks"]}
    world = membership.compute_rank_room(sum({**counts, **usual}.values()))
    most = plan_ports.RankLimits(max(counts.values()), world)
    data = plan_ports.read_data_range(common, most, groups, found, unknown=unknown)
    tunnel_port = {wireguard.PORT: tunnel.port} if tunnel else {}
    plan_ports.check_port_overlap({**named_ports, **tunnel_port}, data, found)
    plan_ports.check_exporter_port(hosts, named_ports, data, found)
    ssh_ports = {host: one.port for host, one in (ssh or {}).items() if one.port is not None}
    served = services.read_services(common[services.SETTING], order, found)
    taken = plan_ports.list_taken_ports(hosts, named_ports, ssh_ports)
    taken += wireguard.list_taken_ports(tunnel)
    services.check_service_ports(served, taken, data, found)
    controllers = plan_hosts.read_controllers(common["fullmesh_controllers"], found)
    hostnames = plan_hosts.read_hostnames(hosts, found)
    choices.check_run_choices(hosts, found)
    batches = batching.read_serial(common["fullmesh_serial"], found)
    batching.check_ssh_addresses(hosts, found)
    if found or data is None:
        raise InvalidInputError(sorted(set(found)))
    leads_time = any(own.get("time_sync_source") == "leader" for own in hosts.values())
    plan = _assemble_plan(
        PlanParts(
            order,
            links,
            railed,
            counts,
            asked,
            made_for,
            groups,
            hostnames,
            named_ports,
            data,
            served,
            controllers,
            leads_time,
            tunnel,
        )
    )
    plan["digests"] = {
        host: membership.compute_node_digest(plan, host, chosen, code)
        for host, chosen in hosts.items()
    }
    # After the digests, because the batch size does not change the state of a node.
    plan["serial"] = batches
    return plan


def _read_common_settings(
    hosts: Mapping[str, HostSettings], defaults: Mapping[str, Any], faults: list[Fault]
) -> dict[str, Any]:
    """Read the cluster-wide settings. Hosts that disagree are a fault."""
    result: dict[str, Any] = {}
    known = {**defaults, **settings.PLAN_SETTINGS}
    for name in (*settings.CLUSTER_WIDE, *wireguard.SETTINGS):
        values = {host: chosen.get(name, known[name]) for host, chosen in hosts.items()}
        result[name] = next(iter(values.values()))
        spellings = {json.dumps(value, sort_keys=True, default=str) for value in values.values()}
        if len(spellings) > 1:
            seen = ", ".join(f"{host}: {value!r}" for host, value in values.items())
            faults.append(
                Fault(
                    "PL-108",
                    f"{name} must be the same on every host ({seen})",
                    "Set it once, for group torch_nodes",
                )
            )
    return result


def _read_tunnel(
    hosts: Mapping[str, HostSettings],
    common: Mapping[str, Any],
    links: Mapping[str, Sequence[NodeLink]],
    ssh: Mapping[str, InventorySsh],
    faults: list[Fault],
) -> wireguard.WireGuardNetwork | None:
    """Read the network of role wireguard, and compare it with the other settings."""
    tunnel = wireguard.read_wireguard(common, links, faults)
    later = {host: str(own.get("fullmesh_ssh_address") or "") for host, own in hosts.items()}
    ways = {host: later[host] or ssh.get(host, InventorySsh()).address for host in hosts}
    if tunnel:
        wireguard.find_wireguard_conflicts(tunnel, common[rails.SETTING], ways, faults)
    return tunnel


def _collect_auto_settings(
    hosts: Mapping[str, HostSettings], defaults: Mapping[str, Any]
) -> dict[str, AutoSettings]:
    """Collect the hosts with settings that only the survey resolves."""
    found = {
        host: auto.read_auto_settings(
            chosen, defaults, ranks=_get_ranks_setting(chosen) == auto.AUTO
        )
        for host, chosen in hosts.items()
    }
    return {
        host: one for host, one in found.items() if one["ranks"] or one["accelerator"] == auto.AUTO
    }


def _get_ranks_setting(chosen: HostSettings) -> Any:
    return chosen.get("fullmesh_local_ranks", settings.PLAN_SETTINGS["fullmesh_local_ranks"])


def _read_local_ranks(host: str, chosen: HostSettings, faults: list[Fault]) -> int:
    value = _get_ranks_setting(chosen)
    if value == auto.AUTO:
        return 1
    try:
        return plan_ports.parse_port_number(value, lowest=1, highest=1024)
    except ValueError as error:
        faults.append(
            Fault(
                "PL-114",
                f"{host}: fullmesh_local_ranks {error}",
                "Use auto, the number of GPUs, or 1 on nodes without GPUs",
            )
        )
        return 1


def _build_plan_nodes(parts: PlanParts) -> dict[str, PlanNode]:
    nodes: dict[str, PlanNode] = {}
    first = 0
    for rank, host in enumerate(parts.order):
        own = parts.links[host]
        nodes[host] = {
            "name": host,
            "node_rank": rank,
            "hostname": parts.hostnames[host],
            "address": str(parts.get_cluster_address(host).ip),
            "local_ranks": parts.counts[host],
            "first_rank": first,
            "ranks": list(range(first, first + parts.counts[host])),
            "accelerator": "" if parts.made_for[host] == auto.AUTO else parts.made_for[host],
            "interface": TUNNEL_INTERFACE if parts.tunnel else own[0].interface,
            "links": [link.as_plan() for link in own],
        }
        first += parts.counts[host]
    return nodes


def _assemble_plan(parts: PlanParts) -> ClusterPlan:
    nodes = _build_plan_nodes(parts)
    every = [
        value.ip for host in parts.order for link in parts.links[host] for value in link.addresses
    ]
    if parts.tunnel:  # peers reach each other there only
        every = [parts.get_cluster_address(host).ip for host in parts.order]
    master = parts.get_cluster_address(parts.order[0]).ip
    store, rendezvous = parts.named["fullmesh_master_port"], parts.named["fullmesh_rendezvous_port"]
    plan: ClusterPlan = {
        "schema": SCHEMA,
        "family": f"ipv{master.version}",
        "world_size": sum(parts.counts.values()),
        "nnodes": len(parts.order),
        "master": {"node": parts.order[0], "address": str(master), "port": store},
        "rendezvous": {
            "endpoint": addresses.join_host_port(master, rendezvous),
            "port": rendezvous,
        },
        "data_ports": ports.range_to_data_ports(parts.data),
        "open_ports": [
            *(f"{port}/tcp" for port in sorted((store, rendezvous))),
            f"{parts.data.first}-{parts.data.last}/tcp",
            *(["123/udp"] if parts.leads_time else []),
            *([rails.ROCE_PORT] if parts.rails.segments else []),
        ],
        "services": list(parts.services),
        "reserved_ports": _list_reserved_ports(parts),
        "peers": [str(address) for address in every],
        "controllers": list(parts.controllers),
        "hosts": [_build_hosts_line(nodes[host]) for host in parts.order],
        "nodes": nodes,
        "process_groups": parts.groups,
        "auto": dict(parts.asked),
    }
    if parts.rails.segments:
        plan["rails"] = rails.build_plan_rails(parts.rails, parts.links)
    if parts.tunnel:
        plan["wireguard"] = parts.tunnel.as_plan()
    return plan


def _list_reserved_ports(parts: PlanParts) -> list[int | str]:
    """List the ports that the kernel must not assign: named ports and services, each once."""
    ours = [*parts.named.values(), *([parts.tunnel.port] if parts.tunnel else [])]
    named = [PortRange(port, port) for port in ours]
    served = map(services.service_port_to_range, parts.services)
    # the kernel never assigns a port below 1024
    high = {
        PortRange(max(one.first, ports.LOWEST_PORT), one.last)
        for one in served
        if one.last >= ports.LOWEST_PORT
    }
    every = sorted({*named, *high})
    return [one.first if one.first == one.last else str(one) for one in every]


def _build_hosts_line(node: PlanNode) -> HostsLine:
    """Build one line for /etc/hosts. An inventory may use addresses as host names, which are left out."""
    names = [name for name in (node["name"], node["hostname"]) if name]
    usable = list(dict.fromkeys(name for name in names if addresses.is_host_name(name)))
    return {"address": node["address"], "names": usable or [f"node{node['node_rank']}"]}
