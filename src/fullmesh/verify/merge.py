"""Merge several runs that each covered some of a cluster's nodes with ``--limit`` (docs/scale.md).

Links that no run tested stay "not run", with the reason. Findings of any run are kept.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

from fullmesh import __version__
from fullmesh.result import read
from fullmesh.result.findings import join_names
from fullmesh.result.types import (
    CheckId,
    CheckRow,
    FindingRow,
    LinkRow,
    MeshSummary,
    NodeSummary,
    Result,
)
from fullmesh.verify import build
from fullmesh.verify.model import CHECKS, FAILED, NOT_RUN, PASSED, describe_limited_nodes

# The check that covers each node by itself. L1 compares nodes, and no run had the nodes of two parts.
OF_NODES = "L0"
OF_LINKS = "L2"
Row = TypeVar("Row")
ALIKE = ("nodes", "data_ports", "master", "world_size")


def check_same_cluster(results: Sequence[Result]) -> None:
    """Check that the runs belong to one cluster.

    Raises:
        ValueError: they are not of one cluster, or of different kinds.
    """
    first = results[0]
    for other in results[1:]:
        odd = [key for key in ALIKE if first["plan"].get(key) != other["plan"].get(key)]
        if odd:
            raise ValueError(
                f"[CL-116] {first['run']} and {other['run']} are not of one cluster: their plans differ in "
                f"{join_names(odd)}. Fix: give every run the whole inventory, and its part with --limit."
            )
        if get_run_kind(first) != get_run_kind(other):
            raise ValueError(
                f"[CL-116] {first['run']} is a run of {get_run_kind(first)}, {other['run']} of {get_run_kind(other)}. "
                "Merge runs of one kind."
            )


def get_run_kind(result: Result) -> str:
    """Return verify or diagnose."""
    return result.get("kind", "verify")


def list_observed_nodes(result: Result) -> list[str]:
    """List the nodes that a run covered."""
    return [name for name, node in result["nodes"].items() if node["kernel"]]


def remove_repeats(rows: Iterable[Row]) -> list[Row]:
    """Remove repeated rows and keep the order."""
    found: list[Row] = []
    for row in rows:
        if row not in found:
            found.append(row)
    return found


def merge_links(results: Sequence[Result]) -> list[LinkRow]:
    """Merge the ordered pairs. If two runs tested one, the later one counts."""
    found: dict[tuple[str, str], LinkRow] = {}
    for result in results:
        found.update({(row["from"], row["to"]): row for row in result["links"]})
    return list(found.values())


def is_disjoint(results: Sequence[Result]) -> bool:
    """Return whether no node was in two of the runs, so that their counts can be added."""
    every = [name for result in results for name in list_observed_nodes(result)]
    return len(every) == len(set(every))


def merge_counts(results: Sequence[Result], of: Callable[[Result], int]) -> int:
    """Add a count over all runs. If they overlap, take the largest."""
    counts = [of(result) for result in results]
    return sum(counts) if is_disjoint(results) else max(counts)


def find_check_row(result: Result, name: CheckId) -> CheckRow | None:
    """Return a check of a run, or None."""
    return next((row for row in result["rungs"] if row["id"] == name), None)


def make_detail_getter(name: str) -> Callable[[Result], int]:
    """Return a function that reads a number from the details of L2."""
    return lambda result: int(
        (find_check_row(result, "L2") or {"details": {}})["details"].get(name, 0)
    )


def count_merged_pairs(results: Sequence[Result]) -> int:
    """Return how many ordered pairs any run tested."""
    if any("mesh" in result for result in results):
        return merge_counts(results, make_detail_getter("pairs"))
    return len(merge_links(results))


def merge_link_check(
    results: Sequence[Result], rows: Sequence[CheckRow], best: CheckRow
) -> CheckRow:
    """Merge L2: the pairs that the runs tested together."""
    count = len(results[0]["plan"]["nodes"])
    pairs, done = count * (count - 1), count_merged_pairs(results)
    details = {
        **best["details"],
        "pairs": done,
        "open": merge_counts(results, make_detail_getter("open"))
        if any("mesh" in result for result in results)
        else sum(row["verdict"] == "open" for row in merge_links(results)),
        "connections": merge_counts(results, make_detail_getter("connections")),
        "notes": remove_repeats(note for row in rows for note in row["details"].get("notes", [])),
        "outsider": remove_repeats(
            one for row in rows for one in row["details"].get("outsider", [])
        ),
    }
    made: CheckRow = {**best, "details": details}
    if best["status"] == NOT_RUN:
        whole = done >= pairs and all(row["status"] in (PASSED, NOT_RUN) for row in rows)
        reason = (
            "" if whole else f"only {done} of {pairs} links were tried: no run had both their ends"
        )
        made = {**made, "status": PASSED if whole else NOT_RUN, "reason": reason}
    return made


def merge_check(results: Sequence[Result], name: CheckId) -> CheckRow:
    """Merge a check: failed if it failed in one run, passed if it passed on all nodes."""
    each = [
        (result, row) for result in results if (row := find_check_row(result, name)) is not None
    ]
    rows = [row for _, row in each]
    best = next(
        (row for word in (FAILED, PASSED, NOT_RUN) for row in rows if row["status"] == word),
        rows[0],
    )
    best = {**best, "seconds": max(row["seconds"] for row in rows)}
    if name == OF_LINKS:
        return merge_link_check(results, rows, best)
    if best["status"] != NOT_RUN:
        return best
    nodes = list(results[0]["plan"]["nodes"])
    seen = {node for result in results for node in list_observed_nodes(result)}
    # the runs' own reason is only that each left out the nodes of the others
    good = all(
        row["reason"]
        == describe_limited_nodes(
            [node for node in nodes if node not in list_observed_nodes(result)]
        )
        for result, row in each
    )
    if not good:
        return best
    out = [node for node in nodes if node not in seen]
    if out:
        return {**best, "reason": describe_limited_nodes(out)}
    if name == OF_NODES:
        return {**best, "status": PASSED, "reason": ""}
    return {**best, "reason": "no run had all nodes. Run ./fullmesh verify without --limit"}


def merge_mesh(results: Sequence[Result]) -> MeshSummary | None:
    """Merge the counts and the pictures of the runs. Return None if the rows are complete."""
    held = [result["mesh"] for result in results if "mesh" in result]
    if not held:
        return None
    count = len(results[0]["plan"]["nodes"])
    made: MeshSummary = {
        "pairs": count * (count - 1),
        "wanted": max(mesh["wanted"] for mesh in held),
        "tried": merge_counts(results, make_detail_getter("pairs")),
        "open": merge_counts(results, make_detail_getter("open")),
        "listeners": "one" if any(mesh["listeners"] == "one" for mesh in held) else "all",
        "new": remove_repeats(name for mesh in held for name in mesh["new"]),
    }
    nodes = [
        {name: result["mesh"].get("by_node", {}).get(name) for name in list_observed_nodes(result)}
        for result in results
        if "mesh" in result
    ]
    by_node = {name: one for some in nodes for name, one in some.items() if one}
    if by_node:
        made["by_node"] = by_node
    pictures = [mesh["rtt_us"] for mesh in held if mesh.get("rtt_us")]
    if pictures:
        made["rtt_us"] = [
            [max(cells) for cells in zip(*row, strict=True)] for row in zip(*pictures, strict=True)
        ]
    return made


def merge_results(results: Sequence[Result]) -> Result:
    """Merge several results.

    Args:
        results: at least one, in any order.

    Raises:
        ValueError: they are not of one cluster.
    """
    check_same_cluster(results)
    results = sorted(results, key=lambda result: result["finished"])
    first, last = results[0], results[-1]
    whole = next((r for r in reversed(results) if r["collectives"]), None)
    ids = [name for name in CHECKS if any(find_check_row(result, name) for result in results)]
    checks = [merge_check(results, name) for name in ids]
    failed = [row["id"] for row in checks if row["status"] == FAILED]
    started = min(result["started"] for result in results)
    errors = any(result["exit_code"] for result in results)
    made: Result = {
        **first,
        "fullmesh": __version__,
        "run": f"{last['run']}-merged",
        "started": started,
        "finished": last["finished"],
        "seconds": build.compute_duration(started, last["finished"]),
        "verdict": "failed" if errors else "ok",
        "exit_code": 1 if errors else 0,
        "failed_rungs": failed,
        "check_mode": any(result["check_mode"] for result in results),
        "lab": next((result["lab"] for result in results if result["lab"]), ""),
        "notes": remove_repeats(row for result in results for row in result["notes"]),
        "firewall_mode": join_names(remove_repeats(result["firewall_mode"] for result in results)),
        "nodes": merge_nodes(results),
        "rungs": checks,
        "links": merge_links(results),
        "collectives": whole["collectives"] if whole else {},
        "findings": merge_findings(results),
    }
    if runs := remove_repeats(row for result in results for row in result.get("bisect", [])):
        made["bisect"] = runs
    if missed := remove_repeats(
        row for result in results for row in result.get("not_looked_at", [])
    ):
        made["not_looked_at"] = missed
    if mesh := merge_mesh(results):
        made["mesh"] = mesh
    return read.parse_result(made)


def merge_nodes(results: Sequence[Result]) -> dict[str, NodeSummary]:
    """Return each node from the last run that surveyed it."""
    found = dict(results[0]["nodes"])
    for result in results:
        found |= {name: result["nodes"][name] for name in list_observed_nodes(result)}
    return found


def merge_findings(results: Sequence[Result]) -> list[FindingRow]:
    """Merge the findings of all runs, errors first."""
    rows: list[FindingRow] = remove_repeats(row for result in results for row in result["findings"])
    return sorted(rows, key=lambda row: row["severity"] != "error")
