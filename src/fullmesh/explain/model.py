"""The words of explain-log: patterns, causes, hits and findings."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property

from fullmesh.observed.ports import PortRange
from fullmesh.printed import clean_and_shorten

ANY_CAUSE = "*"
WORD = re.compile(r"[\w.:%+@/-]{1,120}")
LINE_RANK = re.compile(r"\[[Rr]ank ?(\d{1,7})\]|^\[\d+,(\d{1,7})\]<")
VALUE = 200  # characters of a value taken from a log into a sentence


class Severity(StrEnum):
    """How much a finding weighs."""

    CAUSE = "cause"
    SYMPTOM = "symptom"
    UNKNOWN = "unknown"
    HARMLESS = "harmless"


@dataclass(frozen=True)
class ExplainOptions:
    """What the user told beside the logs."""

    data_ports: PortRange | None = None


Fields = Mapping[str, str]
Derive = Callable[[Fields, ExplainOptions], Fields | None]


@dataclass(frozen=True)
class Pattern:
    """How a line is recognised.

    Attributes:
        needle: literal text, looked for first: plain searching is a hundred times cheaper than *regex*.
        regex: must match in the line around the needle; its named groups become fields.
        before: lines before the needle's line that the regex may see, too.
        fields: (name, value) of fields that every match has.
    """

    needle: str
    regex: str = ""
    before: int = 0
    fields: tuple[tuple[str, str], ...] = ()

    @cached_property
    def compiled(self) -> re.Pattern[str]:
        """The regex, or the needle when there is none."""
        return re.compile(self.regex or re.escape(self.needle), re.DOTALL)


@dataclass(frozen=True)
class LogCause:
    """One thing that a log can tell, with its page.

    Attributes:
        title: what it means in one line.
        says: the sentence of a finding; {names} are fields.
        where: which node or rank is the broken end; {names} are fields.
        prove: the command or probe that proves it.
        fix: what to do.
        source: where the meaning was measured or read.
        looks: real lines.
        follows: codes that explain this one when they are found as well; ANY_CAUSE for all.
        key: fields that keep two findings of this code apart.
        derive: adds fields, or says None when the match is none.
        needs: report it only together with one of these codes (a healthy log can hold the same line).
        weight: the heavier of two causes comes first.
        least: report it only if so many lines show it.
    """

    code: str
    title: str
    says: str
    prove: str
    fix: str
    source: str
    looks: tuple[str, ...]
    patterns: tuple[Pattern, ...]
    where: str = ""
    severity: Severity = Severity.CAUSE
    follows: tuple[str, ...] = ()
    key: tuple[str, ...] = ()
    derive: Derive | None = None
    needs: tuple[str, ...] = ()
    weight: int = 50
    least: int = 1


@dataclass(frozen=True)
class Fact:
    """Something that is neither good nor bad by itself: which address NCCL took, which version runs."""

    name: str
    pattern: Pattern


@dataclass(frozen=True)
class Evidence:
    """A line of a log."""

    file: str
    line: int
    text: str
    rank: str = ""


@dataclass
class LogFinding:
    """A cause that was found, with its evidence and what follows from it."""

    cause: LogCause
    fields: dict[str, str] = field(default_factory=dict)
    evidence: list[Evidence] = field(default_factory=list)
    count: int = 0
    capped: bool = False
    extra: str = ""
    last: tuple[str, int] = ("", 0)  # several patterns may match one line, which counts once
    follows: list[LogFinding] = field(default_factory=list)

    @property
    def code(self) -> str:
        """The code of the cause."""
        return self.cause.code

    def _fill(self, template: str, *, command: bool = False) -> str:
        values = _FieldsWithDefault()
        for name, value in {**self.fields, **describe_rank_process(self.fields)}.items():
            shown = clean_and_shorten(value, VALUE)
            # people paste commands: what a log says must not become one
            values[name] = name.upper() if command and not WORD.fullmatch(shown) else shown
        return " ".join(template.format_map(values).split())

    @property
    def sentence(self) -> str:
        """The cause in one sentence."""
        return self._fill(self.cause.says) + (f" {self.extra}" if self.extra else "")

    @property
    def where(self) -> str:
        """The broken end."""
        return self._fill(self.cause.where)

    @property
    def prove(self) -> str:
        """The next step."""
        return self._fill(self.cause.prove, command=True)

    @property
    def fix(self) -> str:
        """What to do."""
        return self._fill(self.cause.fix, command=True)


def describe_rank_process(fields: Fields) -> Fields:
    """The fields {who} and {Who}: a rank and its host, as far as a log names them."""
    rank, host = (
        value if value != "?" else "" for value in map(fields.get, ("rank", "host"), "??")
    )
    who = (f"rank {rank}" if rank else "a process") + (f" on {host}" if host else "")
    return {"who": who, "Who": who[0].upper() + who[1:]}


class _FieldsWithDefault(dict[str, str]):
    """A template may name a field that a variant of the message does not have."""

    def __missing__(self, key: str) -> str:
        return "?"


def parse_line_rank(line: str) -> str:
    """The rank that a line's prefix names; empty if none."""
    found = LINE_RANK.search(line)
    return (found[1] or found[2]) if found else ""
