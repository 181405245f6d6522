"""Describe a cause in logs: the lines that show it, its findings, and the facts that several lines show together."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property

from fullmesh.causes.engine import Cause
from fullmesh.observed.ports import PortRange
from fullmesh.printed import clean_and_shorten

WORD = re.compile(r"[\w.:%+@/-]{1,120}")
LINE_RANK = re.compile(r"\[[Rr]ank ?(\d{1,7})\]|^\[\d+,(\d{1,7})\]<")
NUMBER = re.compile(r"\d+")
VALUE = 200  # characters of a value taken from a log into a sentence
MOST_LINES = 4  # shown of a finding, of as many files as there are
MOST_VALUES = 1024  # different values of a fact
MOST_ITEMS = 6  # that fit a sentence
MOST_QUIET = 2  # logs without an error to name

# What the other ranks and the launcher report when a rank has failed.
RANK_FAILURE_EFFECTS = ("LG-103", "LG-201", "LG-210", "LG-318", "LG-402", "LG-403", "LG-404")


class Severity(StrEnum):
    """The severity of a finding."""

    CAUSE = "cause"
    SYMPTOM = "symptom"
    UNKNOWN = "unknown"
    HARMLESS = "harmless"


@dataclass(frozen=True)
class ExplainOptions:
    """Options that the user gave with the logs."""

    data_ports: PortRange | None = None


Fields = Mapping[str, str]
Derive = Callable[[Fields, ExplainOptions], Fields | None]


@dataclass(frozen=True)
class Pattern:
    """A pattern that recognizes a line.

    Attributes:
        needle: literal text, searched first because that is 100 times cheaper than *regex*.
        regex: must match in the line around the needle. Its named groups become fields.
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
class Fact:
    """A value that is neither good nor bad by itself, such as NCCL's address or a version."""

    name: str
    pattern: Pattern


NCCL_LINE = r"(?P<host>[^\s:\[\]]{1,120}):\d+:\d+ \[\d+\] NCCL INFO "
# a reason that NCCL logs, or that torch prints in the line after "Last error:"
AS_LAST = r"(?:NCCL WARN |^(?:[\w.-]{1,60}: )?(?:\[rank\d{1,7}\]:)?\s*)"
# a shell, or a script that it runs, before the name of a program that it cannot start
SHELL_PREFIX = r"(?:\b(?:ba|da|z|k)?sh: (?:line )?(?:\d{1,6}: )?|\S: line \d{1,6}: )(?:exec: )?"
PATH_PREFIX = r"(?:[\w.+-]{0,80}/){0,12}"
# every log is asked for these; other facts belong to the causes that need them
FACTS = (
    Fact("rank", Pattern("[rank", r"\[rank(?P<rank>\d{1,7})\]:")),
    *(
        Fact(
            "member",
            Pattern(
                f" {size} ",
                NCCL_LINE + rf".{{0,120}}?\brank (?P<rank>\d{{1,7}}) {size} (?P<size>\d{{1,7}})",
            ),
        )
        for size in ("nranks", "nRanks")
    ),
)


@dataclass(frozen=True)
class RecordedLog:
    """A case: a recorded text, and the codes that it gives.

    Attributes:
        heads: the codes at the top, in order. None for the code of the cause alone.
        folded: the codes under them, sorted.
        harmless: the codes of the harmless warnings.
    """

    name: str
    text: str
    heads: tuple[str, ...] | None = None
    folded: tuple[str, ...] = ()
    harmless: tuple[str, ...] = ()


@dataclass(frozen=True)
class LogCause(Cause):
    """A cause that can be found in logs. The first paragraphs of its page are the title and the sentence of a finding.

    Attributes:
        doc: its page, in which {names} are fields, and {who} is a rank and its host.
        examples: real lines.
        patterns: how its lines are recognized.
        find: yields its findings if several lines or logs show it together.
        facts: the facts that *find* needs from the logs.
        follows_any: whether it follows from any cause that is found.
        replaces: codes of harmless warnings that are part of it.
        after_end: the code that such a line has after the job's own end.
        is_pointer: whether it only says that something failed, and another line of the log has the reason.
        is_last_resort: whether *find* comes after that of all other causes.
        key: fields that keep two findings of this code apart.
        derive: adds fields, or returns None to reject the match.
        describe: a sentence that other lines add to its finding.
        yields: whether it ignores lines that also match another cause.
        survivable: whether it ignores lines after which the same log reports progress or success.
        only_with: report it only together with one of these codes (a healthy log can hold the same line).
        weight: the heavier of two causes comes first, from 40 (a guess) to 96 (the kernel reports it).
        least: report it only if so many lines show it.
        recorded: further cases: variants, and together with other causes.
    """

    examples: tuple[str, ...] = ()
    patterns: tuple[Pattern, ...] = ()
    find: Callable[[LogEvidence], Iterator[LogFinding]] | None = None
    facts: tuple[Fact, ...] = ()
    severity: str = Severity.CAUSE
    weight: int = 50
    follows_any: bool = False
    replaces: tuple[str, ...] = ()
    after_end: str = ""
    is_pointer: bool = False
    is_last_resort: bool = False
    key: tuple[str, ...] = ()
    derive: Derive | None = None
    describe: Callable[[LogFinding, LogEvidence], str] | None = None
    yields: bool = False
    survivable: bool = False
    only_with: tuple[str, ...] = ()
    least: int = 1
    recorded: tuple[RecordedLog, ...] = ()

    def make_finding(self, fields: dict[str, str], lines: Sequence[LogLine]) -> LogFinding:
        """Make a finding that several lines show together."""
        return LogFinding(self, fields, list(lines[:MOST_LINES]), len(lines))


@dataclass(frozen=True)
class LogLine:
    """A line of a log."""

    file: str
    line: int
    text: str
    rank: str = ""


@dataclass
class LogFinding:
    """A cause that was found, with its evidence and the findings that follow from it."""

    cause: LogCause
    fields: dict[str, str] = field(default_factory=dict)
    evidence: list[LogLine] = field(default_factory=list)
    count: int = 0
    capped: bool = False
    extra: str = ""
    last: tuple[str, int] = ("", 0)  # several patterns may match one line, which counts once
    follows: tuple[LogFinding, ...] = ()

    @property
    def code(self) -> str:
        """The code of the cause."""
        return self.cause.code

    @property
    def severity(self) -> str:
        """The severity of the finding."""
        return self.cause.severity

    def _fill(self, template: str, *, command: bool = False) -> str:
        values = _FieldsWithDefault()
        for name, value in {**self.fields, **describe_rank_process(self.fields)}.items():
            shown = clean_and_shorten(value, VALUE)
            # people paste commands: text from a log must not become one
            values[name] = name.upper() if command and not WORD.fullmatch(shown) else shown
        return " ".join(template.format_map(values).split())

    @property
    def sentence(self) -> str:
        """The cause in one sentence."""
        return self._fill(self.cause.page.why) + (f" {self.extra}" if self.extra else "")

    @property
    def where(self) -> str:
        """The place to look."""
        return self._fill(self.cause.page.where)

    @property
    def prove(self) -> str:
        """The next step."""
        return self._fill(self.cause.page.prove, command=True)

    @property
    def fix(self) -> str:
        """The fix, with the finding's values."""
        return self._fill(self.cause.page.fix, command=True)


class _FieldsWithDefault(dict[str, str]):
    """Fields of a template. A variant of the message may lack some of them."""

    def __missing__(self, key: str) -> str:
        return "?"


@dataclass
class LogFacts:
    """The facts of all logs: values -> the line that showed them first, per file."""

    seen: dict[str, dict[tuple[str, ...], LogLine]] = field(default_factory=dict)

    def add(self, name: str, found: re.Match[str], line: LogLine) -> None:
        """Store a fact once per file."""
        values = self.seen.setdefault(name, {})
        key = (line.file, *(group or "" for group in found.groups()))
        if key not in values and len(values) < MOST_VALUES:
            values[key] = line

    def of(self, name: str) -> list[tuple[tuple[str, ...], LogLine]]:
        """Return all values of a fact, without the file, with their lines."""
        return [(key[1:], line) for key, line in self.seen.get(name, {}).items()]

    def host_of(self, rank: str) -> str:
        """Return the node of a rank if NCCL logged it."""
        return next((values[0] for values, _ in self.of("member") if values[1] == rank), "")

    def ranks(self) -> set[str]:
        """Return the ranks that have a log."""
        return {values[0] for values, _ in self.of("rank")}


@dataclass(frozen=True)
class LogEvidence:
    """Evidence from the logs: facts, the findings so far, and the last line of each log."""

    facts: LogFacts
    findings: Sequence[LogFinding]
    last: Mapping[str, LogLine]


def match_missing_program(names: str) -> tuple[Pattern, ...]:
    """Return the patterns of the shells' and make's messages that a program is missing."""
    program = rf"(?P<detail>{PATH_PREFIX}(?:{names}))"
    return (
        Pattern("not found", rf"{SHELL_PREFIX}{program}: (?:command )?not found"),
        Pattern("command not found: ", rf"\bzsh:(?:\d{{1,6}}:)? command not found: {program}\s*$"),
        Pattern("fish: Unknown command", rf"fish: Unknown command:? '?{program}'?\s*$"),
        Pattern(": Command not found", rf"\bmake(?:\[\d{{1,3}}\])?: {program}: Command not found"),
    )


def describe_rank_process(fields: Fields) -> Fields:
    """Return the fields for a rank and its host (in a sentence and at its start), as far as the log names them."""
    rank, host = (
        value if value != "?" else "" for value in map(fields.get, ("rank", "host"), "??")
    )
    who = (f"rank {rank}" if rank else "a process") + (f" on {host}" if host else "")
    return {"who": who, "Who": who[0].upper() + who[1:]}


def parse_line_rank(line: str) -> str:
    """Return the rank in a line's prefix, or an empty text."""
    found = LINE_RANK.search(line)
    return (found[1] or found[2]) if found else ""


def join_first_items(items: Sequence[str]) -> str:
    """Join the shortest of some items for a sentence."""
    items = sorted(set(items), key=lambda item: (len(item), item))
    return ", ".join(items[:MOST_ITEMS]) + (" ..." if len(items) > MOST_ITEMS else "")


def list_closed_facts(patterns: Sequence[Pattern]) -> tuple[Fact, ...]:
    """Return the facts that note every log that shows a closed connection. A finding keeps only some of them."""
    return tuple(Fact("closed", pattern) for pattern in patterns)


def describe_quiet_logs(_finding: LogFinding, evidence: LogEvidence) -> str:
    """Name the ranks' logs that have no error, since a rank that is killed writes none.

    The files of ranks differ in numbers only. Another file among the logs is not blamed.
    """
    shown = [one for found in evidence.findings for one in found.evidence if is_problem(found)]
    loud = {line.file for line in (*shown, *(line for _, line in evidence.facts.of("closed")))}
    shapes = {NUMBER.sub("0", name) for name in loud}
    quiet = [n for n in evidence.last.keys() - loud if NUMBER.sub("0", n) in shapes]
    if not 0 < len(quiet) <= MOST_QUIET:
        return ""
    names = " and ".join(clean_and_shorten(name, 80) for name in sorted(quiet))
    return f"No error is in {names}: that process was killed, or ended by itself."


def is_problem(finding: LogFinding) -> bool:
    """Return whether a finding is a problem."""
    return finding.severity != Severity.HARMLESS
