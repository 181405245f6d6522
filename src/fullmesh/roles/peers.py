"""Build the update that converged nodes get when a peer joins or leaves: the parts that depend on the list of nodes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fullmesh.model import membership, services, wireguard
from fullmesh.model.types import ClusterPlan, PlanNode
from fullmesh.observed.node import Observations
from fullmesh.observed.peer_list import OwnPeerData, PeerFirewall, SharedPeerData
from fullmesh.plain import parse_switch
from fullmesh.roles import cluster_env, launchers, peer_firewall

# The paths in the roles' vars. A test compares them.
ENVIRONMENT = "/etc/fullmesh/env"
NODES = "/etc/fullmesh/nodes.json"
HOSTFILE = "/etc/fullmesh/hostfile"
SERVICES = "/etc/fullmesh/services.json"
JOB = "/etc/fullmesh/job.sbatch"
# The variables of a job's environment that depend on the list of nodes.
VARIABLES = ("MASTER_ADDR", "WORLD_SIZE", "NNODES", "NODE_RANK", "no_proxy", "NO_PROXY")
Settings = Mapping[str, Any]


def build_shared_update(plan: ClusterPlan) -> SharedPeerData:
    """Build the part that is the same on all nodes."""
    return {
        "hosts": [{"address": one["address"], "names": one["names"]} for one in plan["hosts"]],
        "files": [
            {"path": NODES, "content": launchers.render_nodes_file(plan)},
            {"path": HOSTFILE, "content": launchers.render_hostfile(plan)},
            {"path": SERVICES, "content": launchers.render_services_file(plan)},
        ],
        "members": membership.build_membership(plan),
    }


def build_env_updates(plan: ClusterPlan, node: PlanNode, seen: Observations) -> dict[str, str]:
    """Map the beginning of each line of a node's environment that depends on the list of nodes to the whole line."""
    held = cluster_env.build_environment(plan, node, seen)
    wanted = {name: held[name] for name in VARIABLES if name in held}
    lines = cluster_env.render_env_lines(wanted)
    return {f"{name}=": line for name, line in zip(wanted, lines, strict=True)}


def build_slurm_updates(plan: ClusterPlan) -> dict[str, str]:
    """Map the beginning of each line of the Slurm job that depends on the list of nodes to the whole line."""
    most = max(node["local_ranks"] for node in plan["nodes"].values())
    held = {"#SBATCH --nodes=": plan["nnodes"], "#SBATCH --ntasks-per-node=": most}
    return {begins: f"{begins}{value}" for begins, value in held.items()}


def wire_firewall(plan: ClusterPlan, host: str) -> Settings:
    """Return the variables of role peer_firewall that come from the plan, as playbooks/vars/wiring.yml sets them."""
    return {
        "peers": plan["peers"],
        "controllers": plan["controllers"],
        "ports": services.list_open_ports(plan, "peers", host),
        "others": {
            "controllers": services.list_open_ports(plan, "controllers", host),
            "everybody": services.list_open_ports(plan, "everybody", host),
        },
        "tunnel": {
            "peers": wireguard.list_tunnel_peers(plan),
            "ports": wireguard.list_tunnel_ports(plan),
        },
    }


def build_firewall_update(plan: ClusterPlan, host: str, chosen: Settings) -> list[PeerFirewall]:
    """Build the request to the firewall of a node, or an empty list if its firewall is off.

    Args:
        plan: the cluster plan.
        host: the node.
        chosen: its settings, with the roles' defaults.
    """
    prefix = "peer_firewall_"
    own = {name.removeprefix(prefix): chosen[name] for name in chosen if name.startswith(prefix)}
    if peer_firewall.parse_firewall_mode(own["mode"]) == peer_firewall.OFF:
        return []
    return [peer_firewall.build_firewall_request({**own, **wire_firewall(plan, host)})]


def build_node_update(
    plan: ClusterPlan, node: PlanNode, facts: Mapping[str, Any], chosen: Settings
) -> OwnPeerData:
    """Build the part that belongs to one node.

    Args:
        plan: the cluster plan.
        node: its entry, with the interface that was found.
        facts: its Ansible facts (node_facts).
        chosen: its settings, with the roles' defaults.
    """
    names = [str(facts[key]) for key in ("fqdn", "nodename", "hostname")]
    keep = parse_switch(chosen["name_resolution_own_names"])
    return {
        "address": node["address"],
        "own_names": [name for name in names if not name.startswith("localhost")] if keep else [],
        "lines": {
            ENVIRONMENT: build_env_updates(plan, node, facts["fullmesh"]),
            JOB: build_slurm_updates(plan),
        },
        "firewall": build_firewall_update(plan, node["name"], chosen),
    }
