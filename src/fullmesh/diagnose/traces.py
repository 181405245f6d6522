"""Which shut connections are tried once more while the kernels of both ends tell which rules their packets meet.

Those that the rules on paper do not explain for certain: where no rule does, or one that may (a rate, a mark, bytes of
the packet), or one does and others, of which that cannot be told, stand before it.
"""

from __future__ import annotations

from typing import TypedDict

from fullmesh.diagnose.blocking_rules import stop_of
from fullmesh.diagnose.model import Look
from fullmesh.observed.ladder import Pair, Target, TraceEnd
from fullmesh.verify.blocked import DATA_KINDS, FIREWALLED, blocked_pairs

# Of a fault that many links show, some tell as much as all: links, and listeners of each.
LINKS_MOST, PORTS_MOST = 24, 4


class Want(TypedDict):
    """What a node is asked (ladder_trace)."""

    node: str
    address: str
    targets: list[Target]
    ends: list[TraceEnd]


def has_rules(look: Look, name: str) -> bool:
    """Whether a node's packet filter has any rules; only root sees them, and only root can watch them."""
    return bool(look.survey(name).get("root")) and bool(look.ruleset(name)["chains"])


def chosen(look: Look, source: str, target: str) -> list[Pair]:
    """Some shut listeners of a link: first and last of the data range's, and the plan's own."""
    shut = [
        one
        for one in look.records(source)
        if one["node"] == target and one["verdict"] in FIREWALLED and one["kind"] != "outside"
    ]
    own = [one for one in shut if one["kind"] not in DATA_KINDS]
    data = sorted((o for o in shut if o["kind"] in DATA_KINDS), key=lambda o: o["port"])
    ends = [data[0], data[-1]] if len(data) > 1 else data
    return [*ends, *own][:PORTS_MOST]


def doubtful(look: Look) -> list[tuple[str, str]]:
    """The shut links of which no rule on paper says for certain that it stops them."""
    found = []
    for block in blocked_pairs(look.seen):
        if block.verdict not in FIREWALLED:
            continue
        stop = stop_of(look, block).stop
        certain = stop.table and stop.sure and not stop.doubts
        if not certain and (has_rules(look, block.source) or has_rules(look, block.target)):
            found.append((block.source, block.target))
    return list(dict.fromkeys(found))[:LINKS_MOST]


def wanted(look: Look) -> dict[str, Want]:
    """Node -> what it tries and watches; empty where there is nothing to ask."""
    found: dict[str, Want] = {}

    def of(name: str) -> Want:
        empty: Want = {"node": name, "address": look.address(name), "targets": [], "ends": []}
        return found.setdefault(name, empty)

    def watch(name: str, peer: str, mine: list[int], theirs: list[int]) -> None:
        address = look.address(peer)
        for end in of(name)["ends"]:
            if end["address"] == address:
                end["mine"] += mine
                end["theirs"] += theirs
                return
        of(name)["ends"].append({"address": address, "mine": [*mine], "theirs": [*theirs]})

    for source, target in doubtful(look):
        shut = chosen(look, source, target)
        ports = sorted({one["port"] for one in shut})
        watch(source, target, [], ports)
        watch(target, source, ports, [])
        of(source)["targets"] += [
            {
                "node": one["node"],
                "address": one["address"],
                "port": one["port"],
                "kind": one["kind"],
            }
            for one in shut
        ]
    return found
