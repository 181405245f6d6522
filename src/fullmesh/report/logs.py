"""Render the page of explain-log: the findings, their lines with context, and the timeline of each log."""

from __future__ import annotations

import base64
import hashlib
import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from markupsafe import Markup, escape

from fullmesh.explain.error_lines import parse_clock
from fullmesh.explain.reader import Block
from fullmesh.printed import clean_and_shorten
from fullmesh.report.page import create_jinja_env, load_asset

AROUND = 3  # lines of context before and after an evidence line
LONGEST = 2000
BAD = ("cause", "symptom", "unknown")


@dataclass(frozen=True)
class LogExcerpt:
    """A part of a log.

    Attributes:
        ranks: of the evidence in it.
        lines: number -> text, and whether it is evidence.
    """

    file: str
    ranks: set[str]
    lines: dict[int, tuple[str, bool]]


class LineContext:
    """The lines around the evidence, collected in a second reading of the logs."""

    def __init__(self, findings: Iterable[Mapping[str, Any]]) -> None:
        self.wanted: dict[str, set[int]] = defaultdict(set)
        self.lines: dict[tuple[str, int], str] = {}
        for finding in findings:
            for one in finding["evidence"]:
                at = one["line"]
                self.wanted[one["file"]].update(range(max(1, at - AROUND), at + AROUND + 1))

    def take(self, name: str, block: Block) -> None:
        """Keep the wanted lines of a block."""
        wanted = self.wanted.get(name)
        text = block.text[block.start : block.stop]
        if not wanted or min(wanted) > block.line + text.count("\n") or max(wanted) < block.line:
            return
        for number, line in enumerate(text.split("\n"), block.line):
            if number in wanted and line.strip():
                self.lines.setdefault((name, number), clean_and_shorten(line.strip()))

    def list_excerpts(self, evidence: Sequence[Mapping[str, Any]]) -> list[LogExcerpt]:
        """Return the evidence of a finding with the lines around it. Excerpts of a log that overlap are one."""
        found: list[LogExcerpt] = []
        own = {(one["file"], one["line"]): one["text"] for one in evidence}
        for one in sorted(evidence, key=lambda one: (one["file"], one["line"])):
            name, at = one["file"], one["line"]
            numbers = range(max(1, at - AROUND), at + AROUND + 1)
            same = found and found[-1].file == name and max(found[-1].lines) >= numbers.start
            excerpt = found.pop() if same else LogExcerpt(name, set(), {})
            for number in numbers:
                if text := own.get((name, number)) or self.lines.get((name, number)):
                    excerpt.lines[number] = (text, (name, number) in own)
            excerpt.ranks.update({one["rank"]} - {""})
            found.append(excerpt)
        return found


def build_log_courses(data: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the ranks, the first error and the last line of each log.

    If every first error has a timestamp, sort by time. Logs without an error come last.
    """
    first: dict[str, Mapping[str, Any]] = {}
    ranks: dict[str, set[str]] = defaultdict(set)
    for finding in data["findings"]:
        for one in (*finding["evidence"], *(e for f in finding["follows"] for e in f["evidence"])):
            ranks[one["file"]].update({one["rank"]} - {""})
            if one["file"] not in first or one["line"] < first[one["file"]]["line"]:
                first[one["file"]] = one
    rows = [
        {
            "name": last["file"],
            "ranks": sorted(ranks[last["file"]]),
            "lines": last["line"],
            "first": first.get(last["file"]),
            "last": last["text"],
            "time": parse_clock(first[last["file"]]["text"]) if last["file"] in first else "",
            "end": parse_clock(last["text"]),
        }
        for last in data["read"]["last"]
    ]
    # times with and without a day cannot be compared
    shapes = {len(row["time"].split()) for row in rows if row["first"]}
    timed = len(shapes) == 1 and 0 not in shapes
    return sorted(
        rows, key=lambda row: (row["first"] is None, row["time"] if timed else "", row["name"])
    )


def mark_code(text: str) -> Markup:
    """Escape a text, and mark the parts between backticks as code."""
    escaped = str(escape(clean_and_shorten(str(text), LONGEST)))
    return Markup(re.sub(r"`([^`]+)`", r"<code>\1</code>", escaped))  # noqa: S704 (escaped above)


def render_log_report(data: Mapping[str, Any], context: LineContext) -> str:
    """Render the page: one file, without external requests, readable without scripts."""
    style = Markup("{}{}").format(load_asset("page.css")[0], load_asset("hang.css")[0])
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    return (
        create_jinja_env()
        .get_template("logs.html.j2")
        .render(
            data=data,
            courses=build_log_courses(data),
            list_excerpts=context.list_excerpts,
            bad=any(one["severity"] in BAD for one in data["findings"]),
            clean=lambda text: clean_and_shorten(str(text), LONGEST),
            mark_code=mark_code,
            causes=sum(one["severity"] == "cause" for one in data["findings"]),
            style=style,
            policy=f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'",
        )
    )
