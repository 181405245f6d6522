"""What of a node depends on which other nodes there are, and what does not: two digests instead of one.

A node that joins or leaves changes the plan of every node, but on the others only the list of peers: firewall, names,
the lists for launchers. Everything else of them has a digest of its own, so it is not run again.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any, Literal

from fullmesh import settings
from fullmesh.model import services
from fullmesh.model.plan_hosts import HostSettings
from fullmesh.model.types import ClusterPlan, ServicePort
from fullmesh.observed.node import Membership

Group = Literal["drifted", "peers", "converged"]
# Of a node's own entry, what follows from its place among the others.
OF_ITS_PLACE = frozenset({"node_rank", "first_rank", "ranks"})
# Of the plan, what says who is there.
OF_THE_LIST = frozenset(
    {"world_size", "nnodes", "peers", "hosts", "nodes", "auto", "services", "resolved", "digests"}
)
# Up to here no kernel setting grows with the ranks. The neighbour table holds 1024 entries, and a full mesh of 64
# filled it (faults.md 42).
ROOM_LEAST = 256
NTP = "123/udp"  # open to peers where nodes take their time from the master


def list_host_services(plan: ClusterPlan, host: str) -> list[Mapping[str, object]]:
    """The services' ports as one host has them, whoever else has them."""

    def own(port: ServicePort) -> Mapping[str, object]:
        return {**{k: v for k, v in port.items() if k != "nodes"}, "here": host in port["nodes"]}

    return [own(port) for port in plan.get("services", [])]


def select_node_state(plan: ClusterPlan, host: str) -> Mapping[str, object]:
    """What a node is made from, but for the list of its peers."""
    entry = {k: v for k, v in plan["nodes"][host].items() if k not in OF_ITS_PLACE}
    kept = {key: value for key, value in plan.items() if key not in OF_THE_LIST}
    return {
        **kept,
        "node": entry,
        "auto": plan.get("auto", {}).get(host),
        "services": list_host_services(plan, host),
        "served": {
            who: services.list_open_ports(plan, who, host)
            for who in ("peers", "controllers", "everybody")
        },
    }


def compute_node_digest(plan: ClusterPlan, host: str, chosen: HostSettings, code: str) -> str:
    """Of all that a node is made from, but for the list of its peers."""
    state = {k: v for k, v in chosen.items() if not k.startswith(settings.NOT_STATE)}
    return compute_data_digest([select_node_state(plan, host), state, code])


def compute_data_digest(value: object) -> str:
    """A digest of data."""
    text = json.dumps(value, sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()


def compute_list_digest(plan: ClusterPlan) -> str:
    """Of the list of nodes: who is there, in which order, with how many ranks, under which names."""
    return compute_data_digest([{key: plan.get(key) for key in sorted(OF_THE_LIST - {"digests"})}])


def compute_rank_room(world_size: int) -> int:
    """The ranks that a node's kernel settings have room for: the next power of two, `ROOM_LEAST` at least.

    Those of its own that grow with the ranks are made for so many (role kernel_tuning), so that one more node changes
    them on the others at the powers of two only.
    """
    return max(ROOM_LEAST, 1 << max(0, int(world_size) - 1).bit_length())


def is_time_leader(plan: ClusterPlan, host: str) -> bool:
    """Whether the others take their time from a node: its chrony has a line for each of them (role time_sync)."""
    return host == plan["master"]["node"] and NTP in plan["open_ports"]


def build_membership(plan: ClusterPlan) -> Membership:
    """What a node that converges to this plan remembers of the list."""
    return {
        "digest": compute_list_digest(plan),
        "room": compute_rank_room(plan["world_size"]),
        "nodes": list(plan["nodes"]),
    }


def choose_run_group(wanted: Membership, drift: list[str], kept: Any, converge: str) -> Group:
    """What a run does with a node.

    Args:
        wanted: what it has to remember of the list of nodes: `now` of the plan with all that was left to auto.
        drift: sentences, why the node is not what its manifest says.
        kept: what its manifest remembers of the list of nodes, {} where it says nothing.
        converge: ``auto`` or ``always``.
    """
    if converge == "always" or drift:
        return "drifted"
    if kept.get("room") != wanted["room"]:
        return "drifted"
    return "converged" if kept.get("digest") == wanted["digest"] else "peers"
