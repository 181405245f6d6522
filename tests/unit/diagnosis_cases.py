"""Shared by the tests of the diagnosis: recorded clusters, and changes of them."""

from __future__ import annotations

from typing import Any

import records
from records import World

from fullmesh.causes.firewall import packet_filter
from fullmesh.netfilter.evaluator import Packet
from fullmesh.netfilter.ruleset import Ruleset, build_ruleset

HEALTHY = records.load_diagnosis("healthy")


def packet(**change: Any) -> Packet:
    return packet_filter.make_tcp_packet("10.0.0.1", "10.0.0.2", 50001, "eth1")._replace(**change)


def sent(held: dict[str, Any], one: Packet | None = None) -> packet_filter.PacketVerdict:
    return packet_filter.evaluate_packet(as_read(held), one or packet())


def as_read(held: dict[str, Any]) -> Ruleset:
    return build_ruleset(held["chains"], held["rules"], held["sets"])


def match(left: dict[str, Any], right: Any, op: str = "==") -> dict[str, Any]:
    return {"match": {"op": op, "left": left, "right": right}}


def place(world: World, path: tuple[Any, ...], value: Any, drop: bool) -> None:
    holder: Any = world["nodes"]
    for key in path[:-1]:
        try:
            holder = holder[key]
        except (KeyError, IndexError, TypeError):
            return
    if isinstance(holder, dict):
        if drop:
            holder.pop(path[-1], None)
        else:
            holder[path[-1]] = value
    elif isinstance(holder, list) and isinstance(path[-1], int) and path[-1] < len(holder):
        holder[path[-1]] = value
