"""Show the tries of RDMA: a matrix of the nodes for each rail, and its cause in each red cell. Pure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import cast

from fullmesh.causes.engine import load_cause
from fullmesh.report.model import OPEN, UNKNOWN, format_figure, get_plan_nodes
from fullmesh.report.view import MatrixCell
from fullmesh.result.findings import join_names
from fullmesh.result.types import FindingBase, RdmaRow, Result
from fullmesh.verify.rdma_tries import UNTRIED

FAILED_KIND = "dropped"  # CSS class of a red cell
WORKS = MatrixCell(OPEN, "✓", "works", ())
NO_PAIR = MatrixCell(UNKNOWN, "-", "no pair", ())
Ends = tuple[str, str]


@dataclass(frozen=True)
class RailMatrix:
    """The tries on rails with the same outcome.

    Attributes:
        rails: their names.
        nodes: those that took part.
        rows: source -> cells, None on the diagonal.
    """

    rails: Sequence[str]
    nodes: Sequence[str]
    rows: Sequence[tuple[str, Sequence[MatrixCell | None]]]

    def list_cells(self) -> list[MatrixCell]:
        """List the cells of pairs that were to be tried."""
        return [
            cell for _, cells in self.rows for cell in cells if cell is not None and cell != NO_PAIR
        ]

    @property
    def works(self) -> bool:
        """Return whether RDMA works between all pairs."""
        return all(cell.kind == OPEN for cell in self.list_cells())

    @property
    def wanted(self) -> bool:
        """Return whether the matrix says more than its line: a pair failed, or rates were measured."""
        return any(cell != WORKS for cell in self.list_cells())

    def describe(self) -> str:
        """Describe the outcome in one line."""
        cells = self.list_cells()
        good = sum(cell.kind == OPEN for cell in cells)
        untried = sum(cell.kind == UNKNOWN for cell in cells)
        parts = [f"works between {good} of {len(cells)} ordered pairs of nodes"]
        parts += [f"{len(cells) - good - untried} failed"] if good + untried < len(cells) else []
        parts += [f"{untried} not tried"] if untried else []
        return f"RDMA on {join_names(list(self.rails))}: {', '.join(parts)}"


def build_rail_matrices(result: Result) -> list[RailMatrix]:
    """Build a matrix for each rail, and one for all rails with the same cells."""
    by_rail: defaultdict[str, defaultdict[Ends, list[RdmaRow]]] = defaultdict(
        lambda: defaultdict(list)
    )
    for link in result["links"]:
        for row in link.get("rdma", []):
            by_rail[row.get("rail") or row["device"]][link["from"], link["to"]].append(row)
    same: dict[tuple[tuple[str, ...], tuple[MatrixCell | None, ...]], list[str]] = {}
    for rail in sorted(by_rail):
        tried = by_rail[rail]
        ends = {name for pair in tried for name in pair}
        nodes = tuple(name for name in get_plan_nodes(result) if name in ends)
        cells = tuple(
            None if source == target else build_rail_cell(result, (source, target), tried)
            for source in nodes
            for target in nodes
        )
        same.setdefault((nodes, cells), []).append(rail)
    return [
        RailMatrix(
            rails,
            nodes,
            [
                (name, cells[at * len(nodes) : (at + 1) * len(nodes)])
                for at, name in enumerate(nodes)
            ],
        )
        for (nodes, cells), rails in same.items()
    ]


def build_rail_cell(
    result: Result, ends: Ends, tried: Mapping[Ends, Sequence[RdmaRow]]
) -> MatrixCell:
    """Build the cell of an ordered pair. Of several pairs of devices, the worst one decides."""
    rows = tried.get(ends, ())
    if not rows:
        return NO_PAIR
    failed = [row for row in rows if row["step"] and row["step"] not in UNTRIED]
    if not failed:
        untried = next((row for row in rows if row["step"]), None)
        if untried is not None:
            return MatrixCell(UNKNOWN, "?", "not tried", ())
        rates = [row["mbit_s"] for row in rows if "mbit_s" in row]
        if not rates:
            return WORKS
        return MatrixCell(OPEN, "✓", "works", (format_figure(sum(rates) / 1000, "Gbit/s"),))
    row = failed[0]
    if "code" not in row:  # of an older version
        return MatrixCell(FAILED_KIND, "✕", "failed", (row["step"],))
    code = find_shown_code(result, row["code"], ends)
    cause = load_cause(code)
    lines = (
        code,
        *([cause.page.meaning] if cause else []),
        *([row["error"]] if row["error"] else []),
    )
    return MatrixCell(FAILED_KIND, "✕", "failed", lines)


def find_shown_code(result: Result, code: str, ends: Ends) -> str:
    """Return the code of the finding that explains a failed pair: its own, or that of its root cause."""
    for finding in result["findings"]:
        follows = cast("list[FindingBase]", finding.get("follows") or [])
        for one in (finding, *follows):
            named = {one["node"], *one["peer"].split(", ")}
            if one["code"] == code and named & {*ends}:
                return finding["code"]
    return code


def list_failed_tries(matrices: Sequence[RailMatrix]) -> list[tuple[str, str, str, MatrixCell]]:
    """List the failed pairs as rails, source, target and cell, if the matrices are too wide to show."""
    return [
        (join_names(list(one.rails)), source, target, cell)
        for one in matrices
        for source, cells in one.rows
        for target, cell in zip(one.nodes, cells, strict=True)
        if cell is not None and cell.kind == FAILED_KIND
    ]
