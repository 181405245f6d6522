"""Choose the listeners that the probe of check L2 opens on each node, and the targets of each node."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypedDict

from fullmesh.model import services
from fullmesh.model.ports import LOWEST_PORT
from fullmesh.model.types import ClusterPlan
from fullmesh.observed.ladder import NamedPort, PeerKind, ProbePort, ProbeTarget
from fullmesh.observed.ports import parse_port_ranges

ONLY_MODE = "peers_only"  # the only mode that also blocks peers on other ports
HELD: PeerKind = "held"  # the service itself listens, which does not speak the probe's protocol


class ListenerRequest(TypedDict):
    """Listeners of a node: the plan's own ports, and one ``outside`` of the ``allowed`` ranges (both ends included)."""

    named: list[NamedPort]
    outside: bool
    allowed: list[list[int]]


def build_listener_request(plan: ClusterPlan, name: str, mode: str) -> ListenerRequest:
    """Return the listeners that a node opens."""
    named: list[NamedPort] = []
    if name == plan["master"]["node"]:
        named = [
            {"kind": "master", "port": plan["master"]["port"]},
            {"kind": "rendezvous", "port": plan["rendezvous"]["port"]},
        ]
    named += list_service_ports(plan, name)
    data = plan["data_ports"]
    reserved = parse_port_ranges(",".join(map(str, plan["reserved_ports"])))
    allowed = [[data["first"], data["last"]], *([one.first, one.last] for one in reserved)]
    return {"named": named, "outside": mode == ONLY_MODE, "allowed": allowed}


def list_service_ports(plan: ClusterPlan, name: str) -> list[NamedPort]:
    """List the ports of a node's services on which the probe listens."""
    return [{"kind": "service", "port": port} for port in services.list_probe_ports(plan, name)]


def describe_untried_ports(plan: ClusterPlan) -> list[str]:
    """Describe ports that are open for services but cannot be tested.

    UDP has no handshake, so silence is ambiguous. Only root can listen below 1024.
    """
    named = [
        f"{port['service']} {services.service_port_to_range(port)}/{port['protocol']}"
        for port in plan.get("services", [])
        if port["reach"] and (port["protocol"] == "udp" or port["first"] < LOWEST_PORT)
    ]
    return [f"opened and not tried: {', '.join(named)}"] if named else []


def list_probe_targets(
    plan: ClusterPlan, opened: Mapping[str, Sequence[ProbePort]], name: str
) -> list[ProbeTarget]:
    """List every listener of every other node, including services that already use their port."""
    return [
        {
            "node": peer,
            "address": plan["nodes"][peer]["address"],
            "port": port["port"],
            "kind": HELD if port["error"] else port["kind"],
        }
        for peer, ports in opened.items()
        if peer != name
        for port in ports
        if not port["error"] or (port["kind"] == "service" and port["error"] == "EADDRINUSE")
    ]


def is_closed_to_outsiders(plan: ClusterPlan, name: str, port: ProbePort) -> bool:
    """Return whether only peers may reach a listener."""
    if port["kind"] == "service":
        return services.is_peers_only_port(plan, name, port["port"])
    return port["kind"] in ("master", "rendezvous")


def list_outsider_targets(
    plan: ClusterPlan,
    opened: Mapping[str, Sequence[ProbePort]],
    reachable: Mapping[str, str],
) -> list[ProbeTarget]:
    """List the named ports, by the controller's address for the node and by the cluster address."""
    found: list[ProbeTarget] = []
    for name, ports in opened.items():
        for address in dict.fromkeys((reachable[name], plan["nodes"][name]["address"])):
            found += [
                {"node": name, "address": address, "port": port["port"], "kind": "outside"}
                for port in ports
                if is_closed_to_outsiders(plan, name, port) and not port["error"]
            ]
    return found
