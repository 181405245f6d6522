"""Which listeners each node connects to: all of all peers, one of each in the order of a schedule, or new links only.

Above `MANY` nodes all listeners of all peers are more than anybody wants to try at once: connections grow with the
square of the nodes, and so does what is told of them. There every ordered pair is tried once, on one listener, in the
rounds of a round-robin tournament (in each round every node has one partner), a bounded number of rounds together.
Whatever deviates is followed up at once with all listeners of the pair, both ways.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Literal, TypedDict

from fullmesh.model.types import ClusterPlan
from fullmesh.observed.ladder import (
    LadderLinksResult,
    LadderNodeResult,
    LinkResult,
    ProbePort,
    ProbeTarget,
    SweepTarget,
)
from fullmesh.verify import probe_wants

# One listener of a pair costs nodes a seventh of what all cost (benchmarks/probe_mesh.py), and judging all of more than
# these takes the controller longer than a second (benchmarks/scale.py).
MANY = 32
# Cells on a side of the picture of a mesh that is swept; the node tells one figure for each.
BLOCKS = 50
# Ports that must be shut are silent: one in so many pairs tries them.
SHUT_EVERY = 8
# Peers of one node that are followed up; who has more of them has a fault of his own, which these show.
FOLLOWED = 16
# How the records of the rest are told apart from those of the kernel: nothing more is known of them.
UNTOLD: LinkResult = {
    "node": "",
    "address": "",
    "port": 0,
    "kind": "sample",
    "verdict": "dropped",
    "remark": "",
    "errno": "",
    "ms": 0.0,
    "rtt_ms": 0.0,
    "offset": None,
    "offset_error": 0.0,
}

Opened = Mapping[str, Sequence[ProbePort]]
How = Literal["auto", "all", "ports"]
HOW: tuple[How, ...] = ("auto", "all", "ports")


class ProbeScope(TypedDict):
    """What of the mesh a run tries.

    Attributes:
        sweep: one listener of a pair instead of all.
        new: only links with one of these nodes; empty: all links.
        few: there are nodes that joined or left, so the links of the others are tried by one round only.
        run: of the run; where its schedule begins.
    """

    sweep: bool
    new: list[str]
    few: bool
    run: str


def build_probe_scope(
    plan: ClusterPlan, how: str, new: Sequence[str], changed: bool, run: str
) -> ProbeScope:
    """What a run tries.

    Args:
        plan: the cluster plan.
        how: ``auto``; ``all``: every pair, whoever joined or left; ``ports``: every listener of every pair.
        new: the nodes that this run configured.
        changed: the other nodes learnt in this run that some joined or left.
        run: its name.
    """
    few = how == "auto" and changed and len(new) < len(plan["nodes"])
    many = len(plan["nodes"]) > MANY and how != "ports"
    joined = [name for name in plan["nodes"] if name in set(new)] if few else []
    return {"sweep": many, "new": joined, "few": few, "run": run}


def list_partners(count: int, place: int) -> list[int]:
    """The partners of one of *count* nodes, round after round: everybody once (circle method)."""
    even = count + count % 2
    turn = even - 1
    found = []
    for number in range(turn):
        if place == turn:
            # whoever is his own partner on the circle meets the one in its middle
            other = number * (even // 2) % turn
        else:
            other = (number - place) % turn
            other = turn if other == place else other
        found.append(other)
    return [other for other in found if other < count]


def order_peers(plan: ClusterPlan, name: str, run: str) -> list[str]:
    """The peers of a node in the order of the schedule, which begins elsewhere in each run."""
    names = list(plan["nodes"])
    found = [names[place] for place in list_partners(len(names), names.index(name))]
    begin = int(hashlib.sha256(run.encode()).hexdigest(), 16) % max(1, len(found))
    return found[begin:] + found[:begin]


def find_block(place: int, count: int) -> int:
    """The block of the picture that a node belongs to."""
    return place * min(BLOCKS, count) // count


def is_usable_listener(port: ProbePort) -> bool:
    """Whether peers can try a listener: it is open, or the service itself has its port."""
    return not port["error"] or (port["kind"] == "service" and port["error"] == "EADDRINUSE")


def select_listeners(
    plan: ClusterPlan, ports: Sequence[ProbePort], source: int, target: int
) -> list[ProbePort]:
    """The listeners of one peer that a node tries in a sweep: one in turn, and those that every rank will need."""
    names = list(plan["nodes"])
    turn = [
        port for port in ports if is_usable_listener(port) and port["kind"] in ("sample", "range")
    ]
    named = [
        port
        for port in ports
        if is_usable_listener(port) and port["kind"] not in ("sample", "range")
    ]
    found = [turn[(source + target) % len(turn)]] if turn else []
    if names[target] == plan["master"]["node"]:
        found += [port for port in named if port["kind"] != "outside"]
    else:
        rest = [port for port in named if port["kind"] != "outside"]
        found += [rest[source % len(rest)]] if rest else []
    if (source + target) % SHUT_EVERY == 0:
        found += [port for port in named if port["kind"] == "outside"]
    return found


def build_sweep(
    plan: ClusterPlan, opened: Opened, name: str, scope: ProbeScope
) -> list[SweepTarget]:
    """What a node tries in a sweep, in its order; [] where it tries all listeners."""
    if not scope["sweep"]:
        return []
    names = list(plan["nodes"])
    place = {one: number for number, one in enumerate(names)}
    rows: list[SweepTarget] = []
    for peer in select_peers(plan, name, scope):
        for port in select_listeners(plan, opened.get(peer, []), place[name], place[peer]):
            rows.append(
                {
                    "node": peer,
                    "address": plan["nodes"][peer]["address"],
                    "port": port["port"],
                    "kind": probe_wants.HELD if port["error"] else port["kind"],
                    "block": find_block(place[peer], len(names)),
                }
            )
    return rows


def select_peers(plan: ClusterPlan, name: str, scope: ProbeScope) -> list[str]:
    """The peers that a node tries: all, or who is new and one of the others."""
    found = order_peers(plan, name, scope["run"])
    if not scope["few"] or name in scope["new"]:
        return found
    new = set(scope["new"])
    others = [peer for peer in found if peer not in new]
    return [peer for peer in found if peer in new or peer == next(iter(others), "")]


def list_full_targets(
    plan: ClusterPlan, opened: Opened, name: str, scope: ProbeScope
) -> list[ProbeTarget]:
    """The listeners that a node tries where it tries all of each peer; [] in a sweep."""
    if scope["sweep"]:
        return []
    wanted = set(select_peers(plan, name, scope))
    some = {peer: ports for peer, ports in opened.items() if peer in wanted}
    return probe_wants.list_probe_targets(plan, some, name)


def list_deviating_peers(probe: LadderLinksResult) -> list[str]:
    """The peers that a node's sweep told in full, each once."""
    if "swept" not in probe:
        return []
    return list(dict.fromkeys(record["node"] for record in probe["links"]))


def plan_follow_up(
    plan: ClusterPlan, probes: Mapping[str, LadderLinksResult]
) -> dict[str, list[str]]:
    """Node -> the peers whose every listener it tries: of the pairs that deviated, whoever of the two saw it."""
    found: dict[str, dict[str, None]] = {}
    for name, probe in probes.items():
        for peer in list_deviating_peers(probe)[:FOLLOWED]:
            found.setdefault(name, {})[peer] = None
            others = found.setdefault(peer, {})
            if len(others) < FOLLOWED:
                others[name] = None
    return {name: [p for p in held if p in plan["nodes"]] for name, held in found.items()}


def expand_deviations(
    rows: Sequence[SweepTarget], probe: LadderLinksResult
) -> Iterator[LinkResult]:
    """Records of what deviated beyond those that were told in full."""
    for verdict, places in probe["swept"]["more"].items() if "swept" in probe else ():
        for number in places:
            if number < len(rows):
                row = rows[number]
                yield {
                    **UNTOLD,
                    "node": row["node"],
                    "address": row["address"],
                    "port": row["port"],
                    "kind": row["kind"],
                    "verdict": verdict,
                }


def merge_sweep(
    rows: Sequence[SweepTarget], first: LadderLinksResult, closer: LadderLinksResult | None
) -> LadderLinksResult:
    """A sweep and what was asked after it, as one answer: where both tried a listener, the later one counts."""
    if "swept" not in first:
        return first
    later = closer["links"] if closer else []
    again = {(record["node"], record["port"]) for record in later}
    swept_only = [*first["links"], *expand_deviations(rows, first)]
    links = [r for r in swept_only if (r["node"], r["port"]) not in again]
    made: LadderLinksResult = {**first, "links": [*links, *later]}
    if closer:
        made["neighbours"] = closer["neighbours"]
        made["ways"] = closer.get("ways", [])
    return made


class ProbeAnswers(TypedDict, total=False):
    """What was kept of a node: ladder_node's answer, and ladder_links' of a first and a second call."""

    node: LadderNodeResult
    links: LadderLinksResult
    closer: LadderLinksResult


def merge_probe_calls(
    plan: ClusterPlan, nodes: dict[str, ProbeAnswers], scope: ProbeScope | None
) -> dict[str, ProbeAnswers]:
    """The same with one answer about the links, whichever calls it came from."""
    opened = {n: said["node"].get("ports", []) for n, said in nodes.items() if "node" in said}
    for name, said in nodes.items():
        closer = said.pop("closer", None)
        if scope and "swept" in said.get("links", {}):
            first = said["links"]
            rows = build_sweep(plan, opened, name, scope) if first["swept"]["more"] else []
            said["links"] = merge_sweep(rows, first, closer)
    return nodes
