"""Choose the listeners that each node connects to: all of all peers, one each in a schedule, or new links only.

With more than `MANY` nodes, testing all listeners of all peers at once is too much, because connections and results
grow with the square of the nodes. Each ordered pair is then tested once, on one listener, in the rounds of a
round-robin tournament: every node has one partner in each round, and a limited number of rounds run together.
Deviations are followed up at once with all listeners of the pair, in both directions.
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

# One listener of a pair takes a seventh of the time of all listeners (benchmarks/probe_mesh.py). With more nodes than
# this, evaluating all takes the controller more than 1 s (benchmarks/scale.py).
MANY = 32
# Cells on a side of the picture of a swept mesh. Each node reports one value per cell.
BLOCKS = 50
# Ports that must be closed do not answer, which takes time: one in this many pairs tests them.
SHUT_EVERY = 8
# Peers of one node that are followed up. A node with more deviations has its own fault, which these show.
FOLLOWED = 16
# The record of a deviation without details from the kernel.
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
    """The part of the mesh that a run tests.

    Attributes:
        sweep: one listener of a pair instead of all.
        new: only links with one of these nodes. Empty: all links.
        few: nodes joined or left, so the links of the others are only tested in one round.
        run: the name of the run, which determines the start of its schedule.
    """

    sweep: bool
    new: list[str]
    few: bool
    run: str


def build_probe_scope(
    plan: ClusterPlan, how: str, new: Sequence[str], changed: bool, run: str
) -> ProbeScope:
    """Choose the part of the mesh that a run tests.

    Args:
        plan: the cluster plan.
        how: ``auto``, ``all`` (every pair, even if only some nodes changed), or ``ports`` (every listener of every
            pair).
        new: the nodes that this run configured.
        changed: the other nodes got a new list of nodes in this run.
        run: its name.
    """
    few = how == "auto" and changed and len(new) < len(plan["nodes"])
    many = len(plan["nodes"]) > MANY and how != "ports"
    joined = [name for name in plan["nodes"] if name in set(new)] if few else []
    return {"sweep": many, "new": joined, "few": few, "run": run}


def list_partners(count: int, place: int) -> list[int]:
    """List the partners of one of *count* nodes, round after round, each once (circle method)."""
    even = count + count % 2
    turn = even - 1
    found = []
    for number in range(turn):
        if place == turn:
            # a node that is its own partner on the circle meets the node in the middle
            other = number * (even // 2) % turn
        else:
            other = (number - place) % turn
            other = turn if other == place else other
        found.append(other)
    return [other for other in found if other < count]


def order_peers(plan: ClusterPlan, name: str, run: str) -> list[str]:
    """Sort the peers of a node by the schedule, which starts at another position in each run."""
    names = list(plan["nodes"])
    found = [names[place] for place in list_partners(len(names), names.index(name))]
    begin = int(hashlib.sha256(run.encode()).hexdigest(), 16) % max(1, len(found))
    return found[begin:] + found[:begin]


def find_block(place: int, count: int) -> int:
    """Return the block of a node in the picture."""
    return place * min(BLOCKS, count) // count


def is_usable_listener(port: ProbePort) -> bool:
    """Return whether peers can test a listener: it is open, or the service itself uses its port."""
    return not port["error"] or (port["kind"] == "service" and port["error"] == "EADDRINUSE")


def select_listeners(
    plan: ClusterPlan, ports: Sequence[ProbePort], source: int, target: int
) -> list[ProbePort]:
    """Select the listeners of a peer for a sweep: one in turn, and those that every rank needs."""
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
    """List the targets of a node in a sweep, in order, or [] if it tests all listeners."""
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
    """Select the peers that a node tests: all, or the new nodes and one other."""
    found = order_peers(plan, name, scope["run"])
    if not scope["few"] or name in scope["new"]:
        return found
    new = set(scope["new"])
    others = [peer for peer in found if peer not in new]
    return [peer for peer in found if peer in new or peer == next(iter(others), "")]


def list_full_targets(
    plan: ClusterPlan, opened: Opened, name: str, scope: ProbeScope
) -> list[ProbeTarget]:
    """List the listeners of a node that tests all of each peer, or [] in a sweep."""
    if scope["sweep"]:
        return []
    wanted = set(select_peers(plan, name, scope))
    some = {peer: ports for peer, ports in opened.items() if peer in wanted}
    return probe_wants.list_probe_targets(plan, some, name)


def list_deviating_peers(probe: LadderLinksResult) -> list[str]:
    """List the peers that a node's sweep reported in detail, each once."""
    if "swept" not in probe:
        return []
    return list(dict.fromkeys(record["node"] for record in probe["links"]))


def plan_follow_up(
    plan: ClusterPlan, probes: Mapping[str, LadderLinksResult]
) -> dict[str, list[str]]:
    """Map each node to the peers to test on every listener: both nodes of a pair that deviated for either."""
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
    """Yield records for deviations that were not reported in detail."""
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
    """Merge a sweep and its follow-up into one answer. If both tested a listener, the later result counts."""
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
    """The stored answers of a node: ladder_node's, and those of two calls of ladder_links."""

    node: LadderNodeResult
    links: LadderLinksResult
    closer: LadderLinksResult


def merge_probe_calls(
    plan: ClusterPlan, nodes: dict[str, ProbeAnswers], scope: ProbeScope | None
) -> dict[str, ProbeAnswers]:
    """Merge the answers about links from all calls."""
    opened = {n: said["node"].get("ports", []) for n, said in nodes.items() if "node" in said}
    for name, said in nodes.items():
        closer = said.pop("closer", None)
        if scope and "swept" in said.get("links", {}):
            first = said["links"]
            rows = build_sweep(plan, opened, name, scope) if first["swept"]["more"] else []
            said["links"] = merge_sweep(rows, first, closer)
    return nodes
