"""Render a result as CSV tables for spreadsheets and other programs (RFC 4180)."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Mapping, Sequence

from fullmesh.report.model import scrub_texts
from fullmesh.result.types import FindingBase, Result

LINKS, FINDINGS, CHECKS = "links.csv", "findings.csv", "ladder.csv"
# A spreadsheet reads a cell with these first characters as a formula, and texts of nodes are not trusted.
FORMULA = ("=", "+", "-", "@")


def format_csv_cell(value: object) -> str:
    """Format a value as a cell that no spreadsheet evaluates."""
    if value is None:
        return ""
    text = str(value)
    return f"'{text}" if isinstance(value, str) and text.startswith(FORMULA) else text


def render_csv(head: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Render a table."""
    made = io.StringIO()
    out = csv.writer(made, lineterminator="\r\n")
    out.writerow(head)
    out.writerows([format_csv_cell(value) for value in row] for row in rows)
    return made.getvalue()


def iterate_finding_rows(rows: Iterable[FindingBase], root: str = "") -> Iterable[Sequence[object]]:
    """Yield the rows of findings. A finding that follows from another one names it."""
    for one in rows:
        keys = ("code", "severity", "rung", "node", "peer", "direction", "port")
        held: Mapping[str, object] = {**one}
        columns = [held[key] for key in (*keys, "cause", "seen", "expected", "fix")]
        yield [*columns, root]
        yield from iterate_finding_rows(held.get("follows") or (), str(held["code"]))  # type: ignore[arg-type]  # see FoldedRow


def render_csv_tables(raw: Result) -> dict[str, str]:
    """Map the name of each file to its text."""
    result: Result = scrub_texts(raw)
    links = (
        [one["from"], one["to"], one["verdict"], one.get("rtt_ms"), one.get("mbit_s")]
        for one in result["links"]
    )
    checks = (
        [one["id"], one["name"], one["status"], one["seconds"], one["reason"]]
        for one in result["rungs"]
    )
    columns = ("code", "severity", "rung", "node", "peer", "direction", "port", "cause", "seen")
    return {
        LINKS: render_csv(("from", "to", "state", "round_trip_ms", "mbit_s"), links),
        FINDINGS: render_csv(
            (*columns, "expected", "fix", "follows_from"), iterate_finding_rows(result["findings"])
        ),
        CHECKS: render_csv(("rung", "what", "status", "seconds", "remark"), checks),
    }
