"""What the probe of rung L2 opens on each node, and to what each node connects."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypedDict

from fullmesh.model.types import Plan
from fullmesh.observed.ladder import NamedPort, Port, Target

ONLY_MODE = "peers_only"  # the one mode that promises what peers do not reach


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
    data = plan["data_ports"]
    allowed = [[data["first"], data["last"]], *([p, p] for p in plan["reserved_ports"])]
    return {"named": named, "outside": mode == ONLY_MODE, "allowed": allowed}


def targets(plan: Plan, opened: Mapping[str, Sequence[Port]], name: str) -> list[Target]:
    """Every listener of every other node."""
    return [
        {
            "node": peer,
            "address": plan["nodes"][peer]["address"],
            "port": port["port"],
            "kind": port["kind"],
        }
        for peer, ports in opened.items()
        if peer != name
        for port in ports
        if not port["error"]
    ]


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
                if port["kind"] in ("master", "rendezvous") and not port["error"]
            ]
    return found
