"""What the probe of rung L2 opens on each node, and to what each node connects."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypedDict

from fullmesh.model import services
from fullmesh.model.types import Plan
from fullmesh.observed.ladder import NamedPort, PeerKind, Port, Target
from fullmesh.observed.ports import parse_spans

ONLY_MODE = "peers_only"  # the one mode that promises what peers do not reach
HELD: PeerKind = "held"  # the service itself listens, which says no word of the probe's


class Wants(TypedDict):
    """Listeners of a node: the plan's own ports, and one ``outside`` of the ``allowed`` ranges (both ends included)."""

    named: list[NamedPort]
    outside: bool
    allowed: list[list[int]]


def wants(plan: Plan, name: str, mode: str) -> Wants:
    """Which listeners a node opens."""
    named: list[NamedPort] = []
    if name == plan["master"]["node"]:
        named = [
            {"kind": "master", "port": plan["master"]["port"]},
            {"kind": "rendezvous", "port": plan["rendezvous"]["port"]},
        ]
    named += of_services(plan, name)
    data = plan["data_ports"]
    reserved = parse_spans(",".join(map(str, plan["reserved_ports"])))
    allowed = [[data["first"], data["last"]], *([one.first, one.last] for one in reserved)]
    return {"named": named, "outside": mode == ONLY_MODE, "allowed": allowed}


def of_services(plan: Plan, name: str) -> list[NamedPort]:
    """The ports of a node's services on which the probe listens."""
    return [{"kind": "service", "port": port} for port in services.probed(plan, name)]


def untried(plan: Plan) -> list[str]:
    """What is opened for services and nobody can try from outside: UDP has no handshake, silence may be an answer."""
    named = [
        f"{port['service']} {services.span_of(port)}/udp"
        for port in plan.get("services", [])
        if port["protocol"] == "udp"
    ]
    return [f"opened and not tried: {', '.join(named)}"] if named else []


def targets(plan: Plan, opened: Mapping[str, Sequence[Port]], name: str) -> list[Target]:
    """Every listener of every other node, and what listens on a service's port there already."""
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


def closed(plan: Plan, name: str, port: Port) -> bool:
    """Whether nobody but peers may reach a listener."""
    if port["kind"] == "service":
        return services.closed_outside(plan, name, port["port"])
    return port["kind"] in ("master", "rendezvous")


def outsider_targets(
    plan: Plan,
    opened: Mapping[str, Sequence[Port]],
    reachable: Mapping[str, str],
) -> list[Target]:
    """The named ports, by the address that the controller uses and by the cluster's."""
    found: list[Target] = []
    for name, ports in opened.items():
        for address in dict.fromkeys((reachable[name], plan["nodes"][name]["address"])):
            found += [
                {"node": name, "address": address, "port": port["port"], "kind": "outside"}
                for port in ports
                if closed(plan, name, port) and not port["error"]
            ]
    return found
