"""Draw the verdicts that each node recorded (role node_health) as lines over one time axis. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from fullmesh.report import blocks
from fullmesh.result.types import Result

KINDS = {"fit": "ok", "not fit": "bad", "not checked": "mild"}  # CSS classes
LETTERS = {"ok": "✓", "bad": "✕", "mild": "?"}
WIDTH, NARROWEST = 1000.0, 4.0  # units of the drawing. A short fault stays visible
DAYS_SHOWN = 7
EARLIER_SHOWN = 3
LATEST = 1 << 37  # seconds, the year 6325


@dataclass(frozen=True)
class HealthRow:
    """A node: its verdict now, those before as text, and all as bars (CSS class, left edge, width)."""

    node: str
    kind: str
    letter: str
    state: str
    since: str
    earlier: Sequence[str]
    bars: Sequence[tuple[str, float, float]]


@dataclass(frozen=True)
class HealthDrawing:
    """All nodes with a history, those that are not fit first.

    Attributes:
        left_out: the number of nodes without a row.
    """

    begin: str
    end: str
    rows: Sequence[HealthRow]
    left_out: int


def format_time(seconds: float) -> str:
    """Format a time to the minute."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M")


def draw_health(result: Result) -> HealthDrawing | None:
    """Draw the last verdicts of all nodes, or return None if no node has a history."""
    spans = {
        name: list_spans(node["facts"].get("health")) for name, node in result["nodes"].items()
    }
    spans = {name: held for name, held in spans.items() if held}
    if not spans:
        return None
    end = datetime.fromisoformat(result["finished"]).timestamp()
    end = max(end, *(held[-1]["last"] for held in spans.values()))
    begin = min(held[0]["first"] for held in spans.values())
    begin = min(max(begin, end - DAYS_SHOWN * 86400), end - 1)
    rows = [build_health_row(name, held, begin, end) for name, held in spans.items()]
    rows.sort(key=lambda row: (row.kind == "ok", not row.earlier))
    shown = rows[: blocks.MOST_NODES]
    return HealthDrawing(format_time(begin), format_time(end), shown, len(rows) - len(shown))


def list_spans(held: object) -> list[Mapping[str, Any]]:
    """Return the verdicts of a node that can be drawn. A result can come from anywhere."""
    return [
        one
        for one in (held if isinstance(held, list) else [])
        if isinstance(one, Mapping)
        and isinstance(one.get("state"), str)
        and one["state"] in KINDS
        and all(
            isinstance(one.get(key), int) and 0 <= one[key] <= LATEST for key in ("first", "last")
        )
        and isinstance(one.get("codes"), list)
        and all(isinstance(code, str) for code in one["codes"])
    ]


def build_health_row(
    name: str, spans: Sequence[Mapping[str, Any]], begin: float, end: float
) -> HealthRow:
    """Build the line of a node. A verdict holds until the next one."""
    scale = WIDTH / (end - begin)
    bars = []
    for span, after in zip(spans, [*spans[1:], None], strict=True):
        last = after["first"] if after else span["last"]
        left = scale * (max(span["first"], begin) - begin)
        width = max(scale * (last - begin) - left, NARROWEST)
        if last >= begin:
            bars.append(
                (KINDS[span["state"]], round(min(left, WIDTH - NARROWEST), 1), round(width, 1))
            )
    now = spans[-1]
    return HealthRow(
        name,
        KINDS[now["state"]],
        LETTERS[KINDS[now["state"]]],
        describe_verdict(now),
        format_time(now["first"]),
        [
            f"{describe_verdict(one)} from {format_time(one['first'])} to {format_time(one['last'])}"
            for one in reversed(spans[-EARLIER_SHOWN - 1 : -1])
        ],
        bars,
    )


def describe_verdict(span: Mapping[str, Any]) -> str:
    """Return a verdict with its codes."""
    return f"{span['state']}: {', '.join(span['codes'])}" if span["codes"] else str(span["state"])
