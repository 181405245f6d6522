"""Summarize the tested part of the mesh: numbers of pairs, open pairs, and blocks for many nodes."""

from __future__ import annotations

from fullmesh.result.findings import join_names
from fullmesh.result.types import LinkRow, MeshNode, MeshSummary
from fullmesh.verify import schedule
from fullmesh.verify.blocked import OPEN, get_link_records
from fullmesh.verify.model import ClusterObservations

# Rows of links to keep for many nodes. The counts include all links.
ROWS_MOST = 20_000
# Links that are not open and whose cause is examined (diagnose/thin.py).
LOOKED_AT = 400


def count_wanted_pairs(seen: ClusterObservations) -> int:
    """Return how many ordered pairs the run should test."""
    count = len(seen.plan["nodes"])
    if not seen.scope or not seen.scope["few"]:
        return count * (count - 1)
    new = len(seen.scope["new"])
    old = count - new
    return new * (count - 1) + old * new + (old if old > 1 else 0)


def count_tried_peers(seen: ClusterObservations, source: str) -> int:
    """Return how many peers a node tested."""
    swept = seen.nodes.get(source, {}).get("links", {}).get("swept")
    if swept:
        return swept["peers"]
    return len(
        {record["node"] for record in get_link_records(seen, source) if record["kind"] != "outside"}
    )


def count_connections(seen: ClusterObservations, source: str) -> int:
    """Return how many connections a node made."""
    links = seen.nodes.get(source, {}).get("links", {})
    swept = links.get("swept")
    return swept["tried"] if swept else len(get_link_records(seen, source))


def count_tried_pairs(seen: ClusterObservations) -> int:
    """Return how many ordered pairs were tested."""
    return sum(count_tried_peers(seen, source) for source in seen.plan["nodes"])


def count_blocked_by_node(seen: ClusterObservations) -> dict[str, int]:
    """Return how many peers are not open to each node, for nodes that have some."""
    found: dict[str, int] = {}
    for source in seen.plan["nodes"]:
        bad = {
            r["node"]
            for r in get_link_records(seen, source)
            if r["verdict"] != OPEN and r["kind"] != "outside"
        }
        if bad:
            found[source] = len(bad)
    return found


def count_blocked_pairs(seen: ClusterObservations) -> int:
    """Return how many ordered pairs are not open."""
    return sum(count_blocked_by_node(seen).values())


def needs_link_row(seen: ClusterObservations, row: LinkRow) -> bool:
    """Return whether a link gets a row. With many nodes, only deviating links do, instead of a million open ones."""
    few = len(seen.plan["nodes"]) <= schedule.MANY
    failed = any(one.get("code") for one in row.get("rdma", ()))
    return few or row["verdict"] != OPEN or bool(row.get("loss")) or "mbit_s" in row or failed


def summarize_mesh_nodes(seen: ClusterObservations) -> dict[str, MeshNode]:
    """Return for each node the tested peers, the open ones, and the longest round trip in microseconds."""
    bad = count_blocked_by_node(seen)
    found: dict[str, MeshNode] = {}
    for name in seen.plan["nodes"]:
        count = count_tried_peers(seen, name)
        longest = max(list_longest_rtts(seen, name), default=0)
        found[name] = {"peers": count, "open": count - bad.get(name, 0), "rtt_us": longest}
    return found


def list_longest_rtts(seen: ClusterObservations, source: str) -> list[int]:
    """Return a node's longest round trip to each block of peers in microseconds, or 0."""
    swept = seen.nodes.get(source, {}).get("links", {}).get("swept")
    if swept:
        return list(swept["rtt_us"])
    names = list(seen.plan["nodes"])
    place = {name: number for number, name in enumerate(names)}
    found = [0] * min(schedule.BLOCKS, len(names))
    for record in get_link_records(seen, source):
        if record["verdict"] == OPEN and record["node"] in place:
            block = schedule.find_block(place[record["node"]], len(names))
            found[block] = max(found[block], round(record["rtt_ms"] * 1000))
    return found


def build_rtt_blocks(seen: ClusterObservations) -> list[list[int]]:
    """Return the longest round trip between every two blocks of nodes."""
    names = list(seen.plan["nodes"])
    side = min(schedule.BLOCKS, len(names))
    found = [[0] * side for _ in range(side)]
    for number, name in enumerate(names):
        row = found[schedule.find_block(number, len(names))]
        for block, value in enumerate(list_longest_rtts(seen, name)[:side]):
            row[block] = max(row[block], value)
    return found


def summarize_mesh(seen: ClusterObservations) -> MeshSummary | None:
    """Build the summary for the result. Return None if the rows are complete."""
    count = len(seen.plan["nodes"])
    many = count > schedule.MANY
    few = bool(seen.scope and seen.scope["few"])
    if not (many or few) or not any(node.get("links") for node in seen.nodes.values()):
        return None
    done = count_tried_pairs(seen)
    made: MeshSummary = {
        "pairs": count * (count - 1),
        "wanted": count_wanted_pairs(seen),
        "tried": done,
        "open": done - count_blocked_pairs(seen),
        "listeners": "one" if seen.scope and seen.scope["sweep"] else "all",
        "new": list(seen.scope["new"]) if seen.scope else [],
    }
    if many:
        made["by_node"] = summarize_mesh_nodes(seen)
        made["rtt_us"] = build_rtt_blocks(seen)
    return made


def describe_coverage(seen: ClusterObservations) -> list[str]:
    """Describe the parts of the mesh that were not tested."""
    scope = seen.scope
    said = []
    if scope and scope["few"] and len(seen.plan["nodes"]) > 1:
        every = len(seen.plan["nodes"]) * (len(seen.plan["nodes"]) - 1)
        what = "one link of each node was tested"
        if scope["new"]:
            what = f"the links of {join_names(scope['new'])} and one link of each other node were tested"
        said.append(
            f"since the list of nodes changed, {what} ({count_wanted_pairs(seen)} of {every}). "
            "Test all: -e verify_cluster_links=all"
        )
    if scope and scope["sweep"]:
        said.append(
            "of each pair, one listener was tested in turn, and all of them after a deviation. "
            "Test all of every pair: -e verify_cluster_links=ports"
        )
    bad = count_blocked_pairs(seen)
    if bad > LOOKED_AT:
        said.append(
            f"of {bad} links that are not open, at most {LOOKED_AT} were examined for the cause"
        )
    if bad > ROWS_MOST and len(seen.plan["nodes"]) > schedule.MANY:
        said.append(f"{ROWS_MOST} of them have a row in the result. Its counts include all")
    return said
