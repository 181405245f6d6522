"""The participants of a job, as the launchers and the watch need them."""

from __future__ import annotations

import ipaddress

from fullmesh.model.types import ClusterPlan
from fullmesh.observed.watch import ParticipantNode, Participants


def build_job_members(plan: ClusterPlan) -> Participants:
    """Return the participants of a job, with names, addresses, ranks, master, ports and networks."""
    named = {host["address"]: host["names"] for host in plan["hosts"]}
    nodes: list[ParticipantNode] = []
    networks = [plan["wireguard"]["network"]] if "wireguard" in plan else []
    unknown = {} if "resolved" in plan else plan.get("auto", {})
    for node in plan["nodes"].values():
        written = [address for link in node.get("links", []) for address in link["addresses"]]
        addresses = [node["address"], *(a.partition("/")[0] for a in written)]
        one: ParticipantNode = {
            "name": node["name"],
            "address": node["address"],
            "first_rank": node["first_rank"],
            "local_ranks": node["local_ranks"],
            "addresses": list(dict.fromkeys(addresses)),
            "names": [str(name) for name in named.get(node["address"], [])],
        }
        if node["name"] in unknown and unknown[node["name"]]["ranks"]:
            # the node was not surveyed, so its own stored value takes precedence
            one["auto"] = True
        nodes.append(one)
        primary = [a for a in written if a.partition("/")[0] == node["address"]]
        networks += [str(ipaddress.ip_interface(a).network) for a in primary]
    master, ports = plan["master"], plan["data_ports"]
    return {
        "nodes": nodes,
        "master": {"node": master["node"], "address": master["address"], "port": master["port"]},
        "data_ports": {"first": ports["first"], "last": ports["last"]},
        "networks": list(dict.fromkeys(networks)),
    }
