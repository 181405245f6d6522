"""What a run tried of the mesh: how many pairs, how many are open, and a picture of many nodes in blocks."""

from __future__ import annotations

from fullmesh.result.findings import join_names
from fullmesh.result.types import LinkRow, MeshNode, MeshSummary
from fullmesh.verify import schedule
from fullmesh.verify.blocked import OPEN, get_link_records
from fullmesh.verify.model import ClusterObservations

# Of many nodes as many rows of links are kept as a reader can have; the counts are of all.
ROWS_MOST = 20_000
# Links that are not open and are looked at closely for the cause (diagnose/thin.py).
LOOKED_AT = 400


def count_wanted_pairs(seen: ClusterObservations) -> int:
    """How many ordered pairs the run set out to try."""
    count = len(seen.plan["nodes"])
    if not seen.scope or not seen.scope["few"]:
        return count * (count - 1)
    new = len(seen.scope["new"])
    old = count - new
    return new * (count - 1) + old * new + (old if old > 1 else 0)


def count_tried_peers(seen: ClusterObservations, source: str) -> int:
    """How many peers a node tried."""
    swept = seen.nodes.get(source, {}).get("links", {}).get("swept")
    if swept:
        return swept["peers"]
    return len(
        {record["node"] for record in get_link_records(seen, source) if record["kind"] != "outside"}
    )


def count_connections(seen: ClusterObservations, source: str) -> int:
    """How many connections of a node became something."""
    links = seen.nodes.get(source, {}).get("links", {})
    swept = links.get("swept")
    return swept["tried"] if swept else len(get_link_records(seen, source))


def count_tried_pairs(seen: ClusterObservations) -> int:
    """How many ordered pairs were tried."""
    return sum(count_tried_peers(seen, source) for source in seen.plan["nodes"])


def count_blocked_by_node(seen: ClusterObservations) -> dict[str, int]:
    """How many peers are not open to each node; only nodes that have some."""
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
    """How many ordered pairs are not open."""
    return sum(count_blocked_by_node(seen).values())


def needs_link_row(seen: ClusterObservations, row: LinkRow) -> bool:
    """Of many nodes only what deviates stands in the result: a million rows that say open are nobody's."""
    few = len(seen.plan["nodes"]) <= schedule.MANY
    return few or row["verdict"] != OPEN or bool(row.get("loss")) or "mbit_s" in row


def summarize_mesh_nodes(seen: ClusterObservations) -> dict[str, MeshNode]:
    """For each node: the peers that it tried, those that are open, the longest round trip in microseconds."""
    bad = count_blocked_by_node(seen)
    found: dict[str, MeshNode] = {}
    for name in seen.plan["nodes"]:
        count = count_tried_peers(seen, name)
        longest = max(list_longest_rtts(seen, name), default=0)
        found[name] = {"peers": count, "open": count - bad.get(name, 0), "rtt_us": longest}
    return found


def list_longest_rtts(seen: ClusterObservations, source: str) -> list[int]:
    """By block of peers, the longest round trip of a node in microseconds; 0 where there is none."""
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
    """The longest round trip from each block of nodes to each."""
    names = list(seen.plan["nodes"])
    side = min(schedule.BLOCKS, len(names))
    found = [[0] * side for _ in range(side)]
    for number, name in enumerate(names):
        row = found[schedule.find_block(number, len(names))]
        for block, value in enumerate(list_longest_rtts(seen, name)[:side]):
            row[block] = max(row[block], value)
    return found


def summarize_mesh(seen: ClusterObservations) -> MeshSummary | None:
    """What stands in the result beside the rows of links; None where the rows say it all."""
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
    """What of the mesh was left out, in sentences."""
    scope = seen.scope
    said = []
    if scope and scope["few"] and len(seen.plan["nodes"]) > 1:
        every = len(seen.plan["nodes"]) * (len(seen.plan["nodes"]) - 1)
        what = "one link of each node was tried"
        if scope["new"]:
            what = f"the links of {join_names(scope['new'])} and one link of each other node were tried"
        said.append(
            f"since the list of nodes changed, {what} ({count_wanted_pairs(seen)} of {every}); "
            "all: -e verify_cluster_links=all"
        )
    if scope and scope["sweep"]:
        said.append(
            "of each pair one listener was tried, in turn, and all where that deviated; "
            "all of every pair: -e verify_cluster_links=ports"
        )
    bad = count_blocked_pairs(seen)
    if bad > LOOKED_AT:
        said.append(
            f"of {bad} links that are not open {LOOKED_AT} at most were looked at for the cause"
        )
    if bad > ROWS_MOST and len(seen.plan["nodes"]) > schedule.MANY:
        said.append(f"of them {ROWS_MOST} have a row in the result; its counts are of all")
    return said
