"""Judge the Flight Recorder dumps among the logs together, and report them like a log's causes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from fullmesh.causes.hang.job import CAUSE, HangFinding, format_ranks
from fullmesh.causes.logs import VALUE
from fullmesh.causes.pages import format_page_link
from fullmesh.hang import recorder
from fullmesh.hang.judge import judge_job, load_hang_causes
from fullmesh.observed.hang import Rank
from fullmesh.printed import clean_and_shorten, format_label

FOLLOWS = 8  # shown in text (--json has all)
LONGEST = 2 * VALUE  # characters of a sentence


@dataclass(frozen=True)
class RecordFinding:
    """A finding, and the files of its ranks' records.

    Attributes:
        files: (file, rank) of every rank that it is about.
    """

    finding: HangFinding
    files: tuple[tuple[str, int], ...]

    @property
    def severity(self) -> str:
        """The severity."""
        return self.finding.severity

    @property
    def where(self) -> str:
        """The ranks to act on."""
        return format_ranks(self.finding.ranks) if self.finding.ranks else ""

    def as_dict(self) -> dict[str, Any]:
        """In the shape of a log's cause."""
        one = self.finding
        return {
            "code": one.code,
            "severity": one.severity,
            "cause": clean_and_shorten(one.cause, LONGEST),
            "where": self.where,
            "evidence": [
                {"file": name, "line": 0, "rank": str(rank), "text": clean_and_shorten(one.seen)}
                for name, rank in self.files
            ],
            "count": max(1, len(self.files)),
            "prove": one.check or load_hang_causes()[one.code].page.prove,
            "fix": clean_and_shorten(one.fix, LONGEST),
            "page": format_page_link(one.code),
            "follows": [RecordFinding(child, ()).as_dict() for child in one.follows],
        }

    def as_lines(self, number: int) -> list[str]:
        """For people."""
        one = self.finding
        mark = "" if one.severity == CAUSE else f" ({one.severity})"
        lines = [f"{number}. [{one.code}] {clean_and_shorten(one.cause, LONGEST)}{mark}"]
        lines += [format_label("where", self.where)] if self.where else []
        files = ", ".join(f"{name} (rank {rank})" for name, rank in self.files[:4])
        lines.append(
            format_label("seen", f"{files}{': ' if files else ''}{clean_and_shorten(one.seen)}")
        )
        if one.expected:
            lines.append(format_label("expected", clean_and_shorten(one.expected, LONGEST)))
        lines += [
            format_label("check", one.check or load_hang_causes()[one.code].page.prove),
            format_label("fix", clean_and_shorten(one.fix, LONGEST)),
            format_label("page", f"./fullmesh explain {one.code}"),
        ]
        lines += [
            format_label("follows", f"[{child.code}] {clean_and_shorten(child.cause, LONGEST)}")
            for child in one.follows[:FOLLOWS]
        ]
        rest = len(one.follows) - FOLLOWS
        return [*lines, *([format_label("", f"and {rest} more like these")] if rest > 0 else [])]


class RankRecords:
    """The records among the given files."""

    def __init__(self) -> None:
        self.ranks: dict[int, Rank] = {}
        self.names: dict[int, str] = {}

    def take(self, name: str, data: bytes) -> str:
        """Read a record and return a note about it.

        Raises:
            RefusedError: neither torch nor Fullmesh's collector wrote it.
        """
        number = recorder.parse_file_rank(name)
        if number is None:
            number = next(free for free in range(len(self.ranks) + 1) if free not in self.ranks)
        found = recorder.read_rank_file(data, number)
        rank = found["rank"]
        if rank in self.ranks:
            known = self.ranks[rank]
            if _rate_record(known) >= _rate_record(found):
                return f"{self.names[rank]} is also a record of rank {rank}, and was used"
        self.ranks[rank], self.names[rank] = found, name
        return ""

    def findings(self) -> list[RecordFinding]:
        """Return the findings of all records together."""
        found = judge_job([[self.ranks[rank] for rank in sorted(self.ranks)]])
        return [
            RecordFinding(
                one, tuple((self.names[rank], rank) for rank in one.ranks if rank in self.names)[:8]
            )
            for one in found
        ]


def _rate_record(one: Rank) -> tuple[int, int, int]:
    """Return the amount of data in a record: stacks of threads, stacks of entries, entries."""
    entries = one["entries"]
    return len(one["threads"]), sum(bool(entry["frames"]) for entry in entries), len(entries)
