"""Compute 2 digests per node: one depends on the list of nodes, the other does not.

If a node joins or leaves, every plan changes. The other nodes only need a new list of peers (firewall, names, lists
for launchers). The rest of a node has its own digest, so Fullmesh does not configure it again.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any, Literal

from fullmesh import settings
from fullmesh.model import rails, services
from fullmesh.model.plan_hosts import HostSettings
from fullmesh.model.types import ClusterPlan, ServicePort
from fullmesh.observed.node import Membership

Group = Literal["drifted", "peers", "converged"]
# The keys of a node's entry that depend on its position in the list of nodes.
OF_ITS_PLACE = frozenset({"node_rank", "first_rank", "ranks"})
# The keys of the plan that describe the list of nodes.
OF_THE_LIST = frozenset(
    {
        "world_size",
        "nnodes",
        "peers",
        "hosts",
        "rails",
        "nodes",
        "auto",
        "services",
        "resolved",
        "digests",
    }
)
# Up to this number, no kernel setting grows with the ranks. The neighbour table holds 1024 entries, and a full mesh of
# 64 filled it (faults.md 42).
ROOM_LEAST = 256
NTP = "123/udp"  # open to peers if nodes synchronize their clocks with the master


def list_host_services(plan: ClusterPlan, host: str) -> list[Mapping[str, object]]:
    """List the services' ports from the view of one host: without the names of other hosts."""

    def own(port: ServicePort) -> Mapping[str, object]:
        return {**{k: v for k, v in port.items() if k != "nodes"}, "here": host in port["nodes"]}

    return [own(port) for port in plan.get("services", [])]


def select_node_state(plan: ClusterPlan, host: str) -> Mapping[str, object]:
    """Select the inputs of a node, without the list of its peers."""
    entry = {k: v for k, v in plan["nodes"][host].items() if k not in OF_ITS_PLACE}
    kept: dict[str, object] = {k: value for k, value in plan.items() if k not in OF_THE_LIST}
    if plan.get("rails"):
        kept["reach"] = rails.classify_rail_reach(plan["rails"], host, plan["nodes"])
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
    """Compute a digest of all inputs of a node, without the list of its peers."""
    state = {k: v for k, v in chosen.items() if not k.startswith(settings.NOT_STATE)}
    return compute_data_digest([select_node_state(plan, host), state, code])


def compute_data_digest(value: object) -> str:
    """Compute a digest of data."""
    text = json.dumps(value, sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()


def compute_list_digest(plan: ClusterPlan) -> str:
    """Compute a digest of the list of nodes: their order, ranks and names."""
    return compute_data_digest([{key: plan.get(key) for key in sorted(OF_THE_LIST - {"digests"})}])


def compute_rank_room(world_size: int) -> int:
    """Return the number of ranks that a node's kernel settings allow: the next power of 2, at least `ROOM_LEAST`.

    Kernel settings that grow with the ranks (role kernel_tuning) use this number. An additional node therefore
    changes them on the other nodes at powers of 2 only.
    """
    return max(ROOM_LEAST, 1 << max(0, int(world_size) - 1).bit_length())


def is_time_leader(plan: ClusterPlan, host: str) -> bool:
    """Return whether the other nodes synchronize with this one. Its chrony then lists each of them (role time_sync)."""
    return host == plan["master"]["node"] and NTP in plan["open_ports"]


def build_membership(plan: ClusterPlan) -> Membership:
    """Build the record of the list of nodes that a node stores when it converges to this plan."""
    return {
        "digest": compute_list_digest(plan),
        "room": compute_rank_room(plan["world_size"]),
        "nodes": list(plan["nodes"]),
    }


def choose_run_group(wanted: Membership, drift: list[str], kept: Any, converge: str) -> Group:
    """Choose the group of a node in this run.

    Args:
        wanted: the record of the list of nodes to store: `now` of the plan with all ``auto`` values resolved.
        drift: sentences that describe the differences between the node and its manifest.
        kept: the record of the list of nodes in its manifest, {} if there is none.
        converge: ``auto`` or ``always``.
    """
    if converge == "always" or drift:
        return "drifted"
    if kept.get("room") != wanted["room"]:
        return "drifted"
    return "converged" if kept.get("digest") == wanted["digest"] else "peers"
