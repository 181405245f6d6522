"""Derive the environment that every job on a node needs from the cluster plan.

One file serves systemd (``EnvironmentFile=``) and shells (``set -a; . file``), so it only contains values that both
read in the same way.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from fullmesh.faults import Fault, InvalidInputError
from fullmesh.model.rails import classify_rail_reach
from fullmesh.model.types import ClusterPlan, PlanNode
from fullmesh.observed.node import Observations

CODES: dict[str, str] = {
    "CE-101": "A name in cluster_env_extra is not a variable name",
    "CE-102": "cluster_env_extra sets a variable that the cluster plan decides",
    "CE-103": "A value cannot be written so that systemd and the shell read the same",
    "CE-104": "The node's cluster interface is not known",
}

NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
# sh and systemd read these in the same way without quotes. '=' and ',' occur in NCCL_SOCKET_IFNAME.
PLAIN = re.compile(r"[A-Za-z0-9_@%+=:,./\[\]-]*")
# Inside single quotes, both read everything literally except these. systemd before 240 also treated the backslash as
# an escape there.
UNSAFE = re.compile(r"['\\\x00-\x1f\x7f]")
PROXY_NAMES = ("http_proxy", "https_proxy", "all_proxy", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY")
# Mbit/s from which one TCP connection does not fill a link.
FAST = 100_000
# Collectives that torch's Flight Recorder keeps per rank, for `fullmesh hang` and NCCL's dumps. They take some MB.
RECORDED = 2000
NO_PROXY_NAMES = ("no_proxy", "NO_PROXY")
# Variable that the plan decides -> the setting that changes it.
DECIDED: dict[str, str] = {
    "MASTER_ADDR": "fullmesh_master",
    "MASTER_PORT": "fullmesh_master_port",
    "WORLD_SIZE": "fullmesh_local_ranks",
    "NNODES": "the hosts of the group torch_nodes",
    "NODE_RANK": "fullmesh_node_rank",
    "NPROC_PER_NODE": "fullmesh_local_ranks",
    "GLOO_SOCKET_IFNAME": "fullmesh_interface",
    "TORCHCOMM_GLOO_INTERFACE": "fullmesh_interface",
    "NCCL_SOCKET_IFNAME": "fullmesh_interface",
    "NCCL_SOCKET_FAMILY": "fullmesh_address",
    "FULLMESH_ADDRESS": "fullmesh_address",
    "FULLMESH_RENDEZVOUS": "fullmesh_rendezvous_port",
    "FULLMESH_TIMEOUT_SECONDS": "cluster_env_timeout_seconds",
}
# Variables that the launcher sets for each process.
FROM_LAUNCHER = ("RANK", "LOCAL_RANK")


def list_plan_interfaces(plan: ClusterPlan, node: PlanNode) -> list[str]:
    """List the interfaces that jobs may use: only the tunnel if the plan has one, else the node's."""
    return [node["interface"]] if "wireguard" in plan else list_node_interfaces(node)


def list_node_interfaces(node: PlanNode) -> list[str]:
    """List the node's cluster interfaces, primary first, each once. Rails are for RDMA, so their NICs are left out."""
    names = [
        node["interface"],
        *(link["interface"] for link in node["links"] if not link.get("rail")),
    ]
    return list(dict.fromkeys(name for name in names if name))


def build_environment(plan: ClusterPlan, node: PlanNode, facts: Observations) -> dict[str, str]:
    """Build the variables of one node, in the order in which they are written."""
    links = list_plan_interfaces(plan, node)
    if not links:
        raise InvalidInputError([_explain_no_interface(node)])
    env: dict[str, str | int] = {
        "MASTER_ADDR": plan["master"]["address"],
        "MASTER_PORT": plan["master"]["port"],
        "WORLD_SIZE": plan["world_size"],
        "NNODES": plan["nnodes"],
        "NODE_RANK": node["node_rank"],
        "NPROC_PER_NODE": node["local_ranks"],
        "GLOO_SOCKET_IFNAME": links[0],
        # the same for Gloo below torchcomms (TORCH_DISTRIBUTED_USE_TORCHCOMMS=1), which does not read torch's variable
        "TORCHCOMM_GLOO_INTERFACE": links[0],
        "NCCL_SOCKET_IFNAME": "=" + ",".join(links),
        "NCCL_SOCKET_FAMILY": "AF_INET6" if plan["family"] == "ipv6" else "AF_INET",
        "FULLMESH_ADDRESS": node["address"],
        "FULLMESH_RENDEZVOUS": plan["rendezvous"]["endpoint"],
        "TORCH_FR_BUFFER_SIZE": RECORDED,
    }
    env |= (
        build_rdma_variables(plan, node, facts)
        if facts["hcas"] and "wireguard" not in plan
        else build_socket_variables(links, facts)
    )
    if "wireguard" in plan:
        # NCCL_IB_DISABLE leaves plugins for other networks (libnccl-net.so), which WireGuard does not encrypt
        env["NCCL_NET"] = "Socket"
    return {name: str(value) for name, value in env.items()} | build_no_proxy(plan, facts)


def build_socket_variables(links: Sequence[str], facts: Observations) -> dict[str, int]:
    """Build NCCL's variables for TCP: without verbs, and with more threads and sockets on fast links.

    NCCL starts one thread with one socket. Its documentation recommends 4 and 4 for generic 100 Gbit/s networks.
    """
    speed = {one["name"]: one["speed"] for one in facts["interfaces"]}
    env = {"NCCL_IB_DISABLE": 1}
    if speed.get(links[0], 0) >= FAST:
        env |= {"NCCL_SOCKET_NTHREADS": 4, "NCCL_NSOCKS_PERTHREAD": 4}
    return env


def build_rdma_variables(
    plan: ClusterPlan, node: PlanNode, facts: Observations
) -> dict[str, str | int]:
    """Build NCCL's variables for RDMA: its ports, and the address family of their GIDs for RoCE.

    InfiniBand comes before Ethernet. Of Ethernet's ports, those of the rails are used, or those of the cluster's
    interfaces if the plan has no rails, or else all that are up. EFA is left out, because NCCL reaches it through its
    plugin, which needs no variable.
    """
    up = [one for one in facts["rdma"] if one["active"] and one["driver"] != "efa"]
    infiniband = [one for one in up if one["layer"] == "InfiniBand"]
    nics = [link["interface"] for link in node["links"] if link.get("rail")]
    nics = nics or list_node_interfaces(node)
    ours = [one for one in up if any(gid["interface"] in nics for gid in one["gids"])]
    ports = infiniband or ours or up
    if not ports:
        return {}
    env: dict[str, str | int] = {
        "NCCL_IB_HCA": "=" + ",".join(f"{one['device']}:{one['port']}" for one in ports)
    }
    rails = plan.get("rails")
    ipv6 = ":" in rails[0]["network"] if rails else plan["family"] == "ipv6"
    if not infiniband and ipv6:
        # NCCL chooses the GID of each port itself, by default an IPv4 one. If a port has none of the family, NCCL takes
        # its first GID: link-local, RoCE v1
        env["NCCL_IB_ADDR_FAMILY"] = "AF_INET6"
    return env if infiniband else env | build_rail_variables(plan, node["name"])


def build_rail_variables(plan: ClusterPlan, node: str) -> dict[str, str | int]:
    """Build NCCL's variables for rails whose NICs do not all reach each other.

    NCCL_CROSS_NIC: 0 keeps a channel on one rail, 1 lets it arrive by one NIC and leave by another, as cables from
    node to node need. Such NICs must not be merged to one either. NCCL_IB_SUBNET_AWARE_ROUTING (NCCL 2.30.5, older
    ones ignore it) takes the NIC in the network of the peer. Trees need links that a ring of four does not have.
    """
    if not plan.get("rails"):
        return {}
    reach = classify_rail_reach(plan["rails"], node, plan["nodes"])
    if reach in ("one", "apart"):
        return {"NCCL_CROSS_NIC": 0} if reach == "apart" else {}
    env: dict[str, str | int] = {
        "NCCL_CROSS_NIC": 1,
        "NCCL_IB_MERGE_NICS": 0,
        "NCCL_IB_SUBNET_AWARE_ROUTING": 1,
    }
    return env if reach == "mesh" else {**env, "NCCL_ALGO": "Ring"}


def build_no_proxy(plan: ClusterPlan, facts: Observations) -> dict[str, str]:
    """Build both spellings of NO_PROXY with every peer if a proxy is set, else nothing."""
    proxy = {name: value for name, value in facts["proxy"].items() if value}
    if not any(name in proxy for name in PROXY_NAMES):
        return {}
    listed = [part.strip() for name in NO_PROXY_NAMES for part in proxy.get(name, "").split(",")]
    peers = ["localhost", "127.0.0.1", "::1", *plan["peers"]]
    names = [name for host in plan["hosts"] for name in host["names"]]
    value = ",".join(dict.fromkeys(part for part in [*listed, *peers, *names] if part))
    return dict.fromkeys(NO_PROXY_NAMES, value)


def quote_value(value: str) -> str:
    """Quote *value* so that both readers take it literally."""
    if PLAIN.fullmatch(value):
        return value
    if UNSAFE.search(value):
        raise ValueError(f"{value!r} holds a quote, a backslash or a control character")
    return f"'{value}'"


def render_env_lines(env: Mapping[str, Any]) -> list[str]:
    """Render ``KEY=value`` lines."""
    return [f"{name}={quote_value(str(value))}" for name, value in env.items()]


def find_cluster_env_faults(node: PlanNode, extra: Mapping[str, Any]) -> list[Fault]:
    """Return the faults in the settings of one node."""
    found = [] if list_node_interfaces(node) else [_explain_no_interface(node)]
    for name, value in extra.items():
        found += _find_extra_faults(str(name), str(value))
    return found


def _find_extra_faults(name: str, value: str) -> list[Fault]:
    if not NAME.fullmatch(name):
        step = "Use letters, digits and underscores, like NCCL_NSOCKS_PERTHREAD"
        return [Fault("CE-101", f"cluster_env_extra: {name!r} is not a variable name", step)]
    if name in FROM_LAUNCHER:
        text = f"cluster_env_extra: {name} differs between processes and was set to {value!r}"
        return [Fault("CE-102", text, "Remove it. The launcher sets it for each process")]
    if name in DECIDED:
        step = f"Remove it. Fullmesh derives it from {DECIDED[name]}"
        text = f"cluster_env_extra: {name} must agree on all nodes and was set to {value!r}"
        return [Fault("CE-102", text, step)]
    try:
        quote_value(value)
    except ValueError as error:
        step = "Remove these characters, which systemd and the shell read differently"
        return [Fault("CE-103", f"cluster_env_extra: {name}: {error}", step)]
    return []


def _explain_no_interface(node: PlanNode) -> Fault:
    return Fault(
        "CE-104",
        f"{node['name']}: no interface is known for {node['address']!r}",
        "Run the preflight, or set fullmesh_interface to a name or a MAC address",
    )
