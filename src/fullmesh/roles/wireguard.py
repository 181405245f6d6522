"""Build the tunnel of each node from the plan and the public keys that the nodes report. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypedDict

from fullmesh.faults import Fault, InvalidInputError
from fullmesh.model.addresses import join_host_port, parse_bare_address
from fullmesh.model.types import ClusterPlan
from fullmesh.model.wireguard import get_link_address
from fullmesh.node_values import WIREGUARD_KEY
from fullmesh.observed.links import TUNNEL_INTERFACE

CODES: dict[str, str] = {
    "WG-101": "The packages of WireGuard cannot be installed",
    "WG-102": "A node reports a text that is not a public key of WireGuard",
    "WG-103": "A node cannot make a key",
    "WG-104": "The tunnel's configuration cannot be written, or its NIC has a too small MTU",
    "WG-105": "The unit of the tunnel cannot be started",
    "WG-106": "A peer does not answer in the tunnel",
    "WG-107": "Two nodes have the same key",
    "WG-108": "The role has no tunnel in its plan",
}


class TunnelPeer(TypedDict):
    """Another node, as module wireguard_link takes it."""

    name: str
    public_key: str
    address: str
    endpoint: str


class TunnelSettings(TypedDict):
    """A node's part of the tunnel: its address with prefix, its peers, and the addresses of nodes outside this run."""

    address: str
    peers: list[TunnelPeer]
    keep: list[str]


def find_wireguard_faults(settings: Mapping[str, Any]) -> list[Fault]:
    """Return the faults in the role's settings. The plan checks their values for all nodes at once."""
    manage, plan = settings["wireguard_manage"], settings["wireguard_plan"]
    if str(manage).lower() in ("true", "yes", "on", "1") and "wireguard" not in plan:
        text = "wireguard_manage is on for this role only, so the cluster plan has no tunnel"
        return [Fault("WG-108", text, "Set it in the inventory, for all hosts of torch_nodes")]
    return []


def build_tunnel_settings(
    plan: ClusterPlan, keys: Mapping[str, object], host: str
) -> TunnelSettings:
    """Build the part of *host*.

    Args:
        plan: the cluster plan.
        keys: node of this run -> its public key, "" if it has none yet (check mode).
        host: the node.

    Raises:
        InvalidInputError: a key is malformed, or two nodes have the same one.
    """
    check_public_keys(keys)
    tunnel = plan["wireguard"]
    prefix = tunnel["network"].partition("/")[2]
    others = [node for name, node in plan["nodes"].items() if name != host]
    return {
        "address": f"{plan['nodes'][host]['address']}/{prefix}",
        "peers": [
            {
                "name": node["name"],
                "public_key": str(keys[node["name"]]),
                "address": node["address"],
                "endpoint": join_host_port(
                    parse_bare_address(get_link_address(node)), tunnel["port"]
                ),
            }
            for node in others
            if keys.get(node["name"])
        ],
        "keep": [node["address"] for node in others if node["name"] not in keys],
    }


def check_public_keys(keys: Mapping[str, object]) -> None:
    """Refuse keys that cannot be written on other nodes: malformed ones, and one key of several nodes."""
    owners: dict[str, list[str]] = {}
    faults = []
    for node, key in keys.items():
        text = str(key)
        if text and not WIREGUARD_KEY.match(text):
            seen = f"{node} reports {text[:80]!r} as its public key of WireGuard"
            faults.append(
                Fault("WG-102", seen, f"Check: wg show {TUNNEL_INTERFACE} public-key on {node}")
            )
        elif text:
            owners.setdefault(text, []).append(node)
    for nodes in owners.values():
        if len(nodes) > 1:
            text = f"{' and '.join(nodes)} have the same key of WireGuard (one is a copy of the other's disk)"
            step = f"Delete /etc/wireguard/{TUNNEL_INTERFACE}.key on {', '.join(nodes[1:])} and run apply again"
            faults.append(Fault("WG-107", text, step))
    if faults:
        raise InvalidInputError(faults)
