"""Choose the connections over the plan's rails that the probe of check L2 makes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from fullmesh.model.types import ClusterPlan
from fullmesh.observed.ladder import RailAddress, RailPort, RailTarget
from fullmesh.verify.rdma_pairs import order_peers

MOST = 256  # connections of each node, next neighbours first


def list_rail_addresses(plan: ClusterPlan, name: str) -> list[RailAddress]:
    """List a node's addresses on rails. A rail that uses the cluster address is tested as the cluster network."""
    cluster = plan["nodes"][name]["address"]
    return [
        {"rail": rail["name"], "address": rail["members"][name]}
        for rail in plan.get("rails", [])
        if rail["members"].get(name, cluster) != cluster
    ]


def build_rail_targets(
    plan: ClusterPlan, opened: Mapping[str, Sequence[RailPort]]
) -> dict[str, list[RailTarget]]:
    """Return the connections that each node makes: on each rail to every node that has opened a listener there.

    Args:
        plan: of the cluster.
        opened: the listeners of each node. Only their ports are used, and the plan has the addresses.
    """
    ports = {
        (name, one["rail"]): one["port"]
        for name, held in opened.items()
        for one in held
        if not one["error"]
    }
    found: dict[str, list[RailTarget]] = {}
    for name in plan["nodes"]:
        own = {one["rail"]: one["address"] for one in list_rail_addresses(plan, name)}
        if name not in opened:
            continue
        targets: list[RailTarget] = [
            {
                "rail": one["rail"],
                "own": own[one["rail"]],
                "node": peer,
                "address": one["address"],
                "port": ports[peer, one["rail"]],
                "kind": "sample",
            }
            for peer in order_peers(list(plan["nodes"]), name)
            for one in list_rail_addresses(plan, peer)
            if one["rail"] in own and (peer, one["rail"]) in ports
        ]
        found[name] = targets[:MOST]
    return {name: held for name, held in found.items() if held}
