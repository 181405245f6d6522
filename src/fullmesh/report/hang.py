"""Render the page of a hung job: the findings, and its ranks against the collectives of each group."""

from __future__ import annotations

import base64
import hashlib
import itertools
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from markupsafe import Markup

from fullmesh.causes.hang.job import (
    CAUSE,
    SECOND,
    HangFinding,
    JobSample,
    format_ranks,
    has_record,
    strip_backend,
)
from fullmesh.observed.hang import RecorderEntry
from fullmesh.printed import clean_and_shorten
from fullmesh.report.page import create_jinja_env, load_asset

ROWS = 12  # newest collectives of a group
SOON = 0.05  # seconds that do not matter
# The state of a rank in a collective -> its text, in the order of the legend.
WORDS = {
    "out": "completed it",
    "in": "in it",
    "other": "called another collective",
    "not": "not entered",
    "gone": "process gone",
    "unknown": "no answer",
    "before": "older than the record",
}
LONGEST = 2000


@dataclass(frozen=True)
class RankSpan:
    """Neighboring ranks with the same state."""

    at: int
    width: int
    word: str
    text: str


@dataclass(frozen=True)
class CollectiveRow:
    """A collective of a group.

    Attributes:
        spans: its ranks, side by side.
        when: the time since the first rank entered it, and the delay of the last one.
    """

    number: int
    kind: str
    sizes: str
    spans: tuple[RankSpan, ...]
    when: str


@dataclass(frozen=True)
class GroupLane:
    """A process group: its newest collectives, the oldest first."""

    name: str
    ranks: str
    count: int
    rows: tuple[CollectiveRow, ...]


def find_rank_state(now: JobSample, group: str, rank: int, number: int, usual: str) -> str:
    """Return the state of a rank in a collective: a key of `WORDS`."""
    entry = now.by_number[group].get(rank, {}).get(number)
    if entry is not None:
        word = "out" if entry["retired"] else "in"
        return word if strip_backend(entry["kind"]) == usual else "other"
    one = now.ranks.get(rank)
    if one is None or not has_record(one):
        return "gone" if one is not None and one["process"] == "gone" else "unknown"
    return "before" if now.last[group].get(rank, 0) >= number else "not"


def merge_rank_spans(members: Sequence[int], words: Sequence[str]) -> Iterator[RankSpan]:
    """Merge neighboring cells with the same state, so that 512 ranks become a few cells."""
    at = 0
    for word, same in itertools.groupby(zip(members, words, strict=True), key=lambda one: one[1]):
        here = [rank for rank, _ in same]
        yield RankSpan(at, len(here), word, f"{format_ranks(here)}: {WORDS[word]}")
        at += len(here)


def format_entry_age(now: JobSample, entered: Mapping[int, RecorderEntry]) -> str:
    """Format the time since a collective was entered, by the clocks of its ranks' nodes."""
    ages = [
        (now.ranks[rank]["taken_ns"] - entry["created_ns"]) / SECOND
        for rank, entry in entered.items()
        if now.ranks[rank]["taken_ns"] and entry["created_ns"]
    ]
    if not ages:
        return ""
    later = max(ages) - min(ages)
    return f"{max(ages):.1f} s ago" + (f", the last {later:.1f} s later" if later >= SOON else "")


def build_group_lane(now: JobSample, group: str) -> GroupLane | None:
    """Build a group's newest collectives. Return None if no rank has entered any."""
    by_rank, members = now.by_number[group], now.members[group]
    numbers = sorted({number for entered in by_rank.values() for number in entered})[-ROWS:]
    rows = []
    for number in numbers:
        entered = {rank: of[number] for rank, of in by_rank.items() if number in of}
        usual = Counter(strip_backend(one["kind"]) for one in entered.values()).most_common(1)[0][0]
        sizes = Counter(str(one["in_sizes"]) for one in entered.values()).most_common(1)[0][0]
        words = [find_rank_state(now, group, rank, number, usual) for rank in members]
        row = CollectiveRow(
            number,
            usual,
            clean_and_shorten(sizes, 60),
            tuple(merge_rank_spans(members, words)),
            format_entry_age(now, entered),
        )
        rows.append(row)
    name = now.groups[group] or f"group {group}"
    return (
        GroupLane(clean_and_shorten(name), format_ranks(members), len(members), tuple(rows))
        if rows and members
        else None
    )


def build_group_lanes(now: JobSample) -> list[GroupLane]:
    """Build every group with entries, the largest first."""
    found = [one for group in now.groups if (one := build_group_lane(now, group))]
    return sorted(found, key=lambda one: (-one.count, one.name))


def render_hang_report(job: str, now: JobSample, found: Sequence[HangFinding]) -> str:
    """Render the page: one file, without external requests, readable without scripts."""
    style = Markup("{}{}").format(load_asset("page.css")[0], load_asset("hang.css")[0])
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    causes = sum(one.severity == CAUSE for one in found)
    made = build_group_lanes(now)
    used = {span.word for one in made for row in one.rows for span in row.spans}
    return (
        create_jinja_env()
        .get_template("hang.html.j2")
        .render(
            job=clean_and_shorten(job),
            world=now.world,
            hosts=len({one["host"] for one in now.ranks.values()}),
            taken=f"{datetime.now(UTC):%Y-%m-%d %H:%M:%S} UTC",
            causes=causes,
            found=found,
            clean=lambda text: clean_and_shorten(text, LONGEST),
            in_words=format_ranks,
            lanes=made,
            legend=[(word, text) for word, text in WORDS.items() if word in used],
            style=style,
            policy=f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'",
        )
    )
