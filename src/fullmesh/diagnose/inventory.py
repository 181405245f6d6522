"""The plan for a diagnosis: the cluster plan if the inventory allows one, otherwise as much of it as possible.

A diagnosis must work on nodes that Fullmesh never configured and with inventories that ``site.yml`` would refuse, so
nothing here raises: errors in the inventory become notes.
"""

from __future__ import annotations

import re
import socket
from collections.abc import Mapping, Sequence
from typing import Any

from fullmesh import node_values
from fullmesh.faults import Fault, InvalidInputError
from fullmesh.foreign_text import parse_decimal
from fullmesh.model import addresses, plan, ports, services
from fullmesh.model.types import ClusterPlan, HostsLine, PlanNode
from fullmesh.observed.ladder import NamedPort
from fullmesh.observed.ports import KERNEL_RANGE
from fullmesh.plain import to_json_value
from fullmesh.verify.probe_wants import list_service_ports
from fullmesh.verify.rail_targets import list_rail_addresses

# Nodes -> ports of the data range to test on each node, in addition to three that its kernel chooses.
SPREADS = ((16, 16), (64, 8), (1 << 30, 4))
# the default path at which torch_runtime links its environment (roles/torch_runtime/defaults)
VENV = "/opt/fullmesh/venv"
MASTER_PORT, RENDEZVOUS_PORT = 29500, 29400


def parse_int_or_default(value: Any, default: int, low: int = 1, high: int = 65535) -> int:
    """Return a whole number, or the default."""
    found = parse_decimal(str(value), high, low)
    return default if found is None else found


def parse_literal_address(text: Any) -> str:
    """Return an address without its prefix, or "" for other values."""
    try:
        return str(addresses.parse_bare_address(str(text).split("/")[0].strip("[] ")))
    except ValueError:
        return ""


def resolve_host_name(name: str) -> str:
    """Resolve a name on the controller, as ssh does."""
    if not re.fullmatch(r"[A-Za-z0-9_.-]{1,253}", name):
        return ""
    try:
        return str(socket.getaddrinfo(name, None, type=socket.SOCK_STREAM)[0][4][0]).split("%")[0]
    except (OSError, UnicodeError):
        return ""


def get_first_item(value: Any) -> Any:
    """Return the first item of a list, or the value itself."""
    return value[0] if isinstance(value, list) and value else value


def find_cluster_address(host: str, variables: Mapping[str, Any]) -> str:
    """Return a host's cluster address from the inventory, or the address that Ansible uses."""
    links = get_first_item(to_json_value(variables.get("fullmesh_links") or []))
    inner = (
        get_first_item(links.get("addresses") or links.get("address"))
        if isinstance(links, dict)
        else ""
    )
    for candidate in (
        get_first_item(to_json_value(variables.get("fullmesh_address") or "")),
        inner,
        variables.get("ansible_host", ""),
        host,
    ):
        if found := parse_literal_address(candidate):
            return found
    return resolve_host_name(str(variables.get("ansible_host") or host))


def build_plan_node(host: str, rank: int, variables: Mapping[str, Any], address: str) -> PlanNode:
    """Make a node of the plan from the available settings of the inventory."""
    interface = str(variables.get("fullmesh_interface") or "")
    name = (
        interface
        if node_values.INTERFACE_NAME.match(interface) and not node_values.MAC.match(interface)
        else ""
    )
    hostname = str(variables.get("fullmesh_hostname") or "")
    return {
        "name": host,
        "node_rank": rank,
        "hostname": hostname if addresses.is_host_name(hostname) else "",
        "address": address,
        "local_ranks": parse_int_or_default(variables.get("fullmesh_local_ranks", 1), 1, high=1024),
        "interface": name,
        "first_rank": 0,
        "ranks": [],
        "links": [],
    }


def guess_plan(hostvars: Mapping[str, Mapping[str, Any]], hosts: Sequence[str]) -> ClusterPlan:
    """Make a plan from addresses alone."""
    chief = str(hostvars[hosts[0]].get("fullmesh_master") or hosts[0]) if hosts else ""
    order = sorted(hosts, key=lambda host: host != chief)
    nodes: dict[str, PlanNode] = {}
    first = 0
    for rank, host in enumerate(order):
        node = build_plan_node(
            host, rank, hostvars[host], find_cluster_address(host, hostvars[host])
        )
        node["first_rank"] = first
        node["ranks"] = list(range(first, first + node["local_ranks"]))
        first += node["local_ranks"]
        nodes[host] = node
    master = next(iter(nodes.values()))
    own = hostvars[master["name"]]
    port = parse_int_or_default(own.get("fullmesh_master_port", MASTER_PORT), MASTER_PORT)
    second = parse_int_or_default(
        own.get("fullmesh_rendezvous_port", RENDEZVOUS_PORT), RENDEZVOUS_PORT
    )
    endpoint = f"[{master['address']}]" if ":" in master["address"] else master["address"]
    return {
        "schema": plan.SCHEMA,
        "family": "ipv6" if ":" in master["address"] else "ipv4",
        "world_size": first,
        "nnodes": len(nodes),
        "master": {"node": master["name"], "address": master["address"], "port": port},
        "rendezvous": {"endpoint": f"{endpoint}:{second}", "port": second},
        "data_ports": ports.range_to_data_ports(KERNEL_RANGE),
        "open_ports": [],
        "services": services.read_services(
            to_json_value(own.get(services.SETTING) or []), list(nodes), []
        ),
        "reserved_ports": [*sorted({port, second})],
        "peers": [n["address"] for n in nodes.values() if n["address"]],
        "controllers": [],
        "hosts": [build_hosts_line(node) for node in nodes.values() if node["address"]],
        "nodes": nodes,
    }


def build_hosts_line(node: PlanNode) -> HostsLine:
    """Return an address with its names."""
    names = [n for n in (node["name"], node["hostname"]) if n and addresses.is_host_name(n)]
    return {"address": node["address"], "names": list(dict.fromkeys(names))}


def build_tolerant_plan(
    hostvars: Any, hosts: Sequence[str], group: str = "torch_nodes"
) -> ClusterPlan:
    """Return the plan of *hosts*, even from a faulty inventory.

    Returns the cluster plan with three keys more: ``assumed`` (the inventory does not say which data ports jobs use, so
    the nodes' kernels decide), ``guessed`` (there is no plan, only addresses) and ``faults`` (why ``site.yml``
    would refuse this inventory, code and text).
    """
    names = [str(host) for host in hosts]
    held = {name: hostvars[name] for name in names}
    faults: list[Fault] = []
    try:
        made = plan.derive_from_hostvars(held, names)
    except InvalidInputError as error:
        faults = error.faults
        made = guess_plan(held, names)
    first = held[names[0]] if names else {}
    made["guessed"] = bool(faults)  # the plan is unreliable even for configured nodes
    made["assumed"] = str(first.get("fullmesh_data_ports", "auto")) == "auto" or bool(faults)
    bare = {fault.code for fault in faults} == {
        "PL-103"
    }  # only ansible_host, so the inventory was not written for Fullmesh
    made["faults"] = [] if bare else [{"code": f.code, "text": f.text} for f in faults]
    made.pop("digests", None)
    return made


def build_node_request(
    made: ClusterPlan, host: str, variables: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the arguments of module ladder_node for a host."""
    node = made["nodes"][host]
    named: list[NamedPort] = []
    if host == made["master"]["node"]:
        named = [
            {"kind": "master", "port": made["master"]["port"]},
            {"kind": "rendezvous", "port": made["rendezvous"]["port"]},
        ]
    named += list_service_ports(made, host)
    venv = str(variables.get("torch_runtime_path") or VENV)
    return {
        "address": node["address"],
        "interface": node["interface"],
        "named": named,
        "range": []
        if made.get("guessed")
        else [made["data_ports"]["first"], made["data_ports"]["last"]],
        "python": f"{venv}/bin/python",
        "job_user": str(variables.get("launchers_job_user") or ""),
        "nccl": False,
        "rails": list_rail_addresses(made, host),
        "spread": next(count for most, count in SPREADS if len(made["nodes"]) <= most),
    }
