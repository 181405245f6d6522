"""Rank the matches: root causes first, with their consequences folded under them. Pure."""

from __future__ import annotations

import re
from collections import defaultdict
from dataclasses import dataclass, field

from fullmesh.causes.engine import fold_findings, load_causes
from fullmesh.causes.launch.patterns import BROKEN
from fullmesh.causes.logs import (
    FACTS,
    MOST_LINES,
    RANK_FAILURE_EFFECTS,
    ExplainOptions,
    Fact,
    LogCause,
    LogEvidence,
    LogFacts,
    LogFinding,
    LogLine,
    Pattern,
    Severity,
    parse_line_rank,
)
from fullmesh.explain.error_lines import (
    FINISHED_NEEDLES,
    GATED_NEEDLES,
    ErrorKind,
    classify_line,
)
from fullmesh.explain.error_lines import NEEDLES as ERROR_NEEDLES
from fullmesh.explain.overview import Overview
from fullmesh.explain.quiet import QuietLines
from fullmesh.explain.reader import Block, find_line_bounds
from fullmesh.explain.unknown import UnknownErrors
from fullmesh.printed import clean_and_shorten

CAUSES: dict[str, LogCause] = {
    code: cause for code, cause in sorted(load_causes("LG").items()) if isinstance(cause, LogCause)
}
SAME_FILE = 2
# findings that the program's own error may explain
ENDS = (*BROKEN, *RANK_FAILURE_EFFECTS, "LG-302", "LG-320", "LG-722")
MOST_KEYS = 24  # findings of one code, since a hostile log can name any number of addresses
MOST_HITS = 20000  # lines per file and needle to examine closely
MOST_FACTS = 400
Users = list[tuple[LogCause | Fact, Pattern]]
# text that many needles share: a block without it has none of them
GATES = (
    *("rror", "ailed", "ignal", "onnect", "rocess", "errno", "ddress", "nccl", "evice", "imed out"),
    *(
        "_ERROR",
        "ble",
        "cted",
        "ver",
        "ize",
        "tin",
        "ound",
        "start",
        "emory",
        "annot",
        "ould",
        "xceeded",
    ),
    *(
        "mage",
        "ismatch",
        "hread",
        "any ",
        "not ",
        "dead",
        "mark",
        " co",
        "rt",
        "ex",
        "ib",
        "il",
        "ER",
    ),
    *(" den", "SH", "TO", "Using ", "nv", "SIG"),
)


def _index_patterns() -> dict[str, Users]:
    table: dict[str, Users] = defaultdict(list)
    for cause in CAUSES.values():
        for pattern in cause.patterns:
            table[pattern.needle].append((cause, pattern))
    for fact in dict.fromkeys(
        (*FACTS, *(fact for cause in CAUSES.values() for fact in cause.facts))
    ):
        table[fact.pattern.needle].append((fact, fact.pattern))
    return dict(table)


def _group_needles() -> dict[str, dict[str, Users]]:
    table: dict[str, dict[str, Users]] = defaultdict(dict)
    for needle, users in NEEDLES.items():
        gate = next((gate for gate in GATES if gate in needle), "")
        table[gate][needle] = users
    return dict(table)


NEEDLES = _index_patterns()
GATED = _group_needles()
LONGEST_NEEDLE = max(map(len, NEEDLES))
FACT_NEEDLES = frozenset(
    needle for needle, users in NEEDLES.items() if all(isinstance(user, Fact) for user, _ in users)
)
SEARCHED: dict[str, set[str]] = {gate: set(needles) for gate, needles in GATED.items()}
SEARCHED[""] = {*SEARCHED.get("", ()), *ERROR_NEEDLES, *GATED_NEEDLES, *FINISHED_NEEDLES}


@dataclass
class Tally:
    """Findings and facts so far. The size depends on the number of causes, not on the logs."""

    options: ExplainOptions
    findings: dict[tuple[str, ...], LogFinding] = field(default_factory=dict)
    known: LogFacts = field(default_factory=LogFacts)
    hits: dict[tuple[str, str], int] = field(default_factory=lambda: defaultdict(int))
    left_out: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    errors: UnknownErrors = field(default_factory=UnknownErrors)
    overview: Overview = field(default_factory=Overview)
    quiet: QuietLines = field(default_factory=lambda: QuietLines(SEARCHED))
    # lines of the current block that a rule matches -> the rules that may be dropped at the end, none if one stays
    matched: dict[int, frozenset[str]] = field(default_factory=dict)
    # matches of the current block that only count if no other cause has their line
    yielding: list[tuple[LogCause, dict[str, str], LogLine]] = field(default_factory=list)

    def take(self, name: str, block: Block) -> None:
        """Look through one block of a log."""
        self.matched.clear()
        self.yielding.clear()
        needles = self.quiet.find_needles(block)
        self.errors.note_end(name, block, needles)
        is_unknown = needles is self.quiet.every
        for gate, group in GATED.items():
            # a needle that begins in this block may end after it
            if is_unknown and block.text.find(gate, block.start, block.stop + LONGEST_NEEDLE) == -1:
                continue
            for needle, users in group.items():
                if needle in needles:
                    self._search(name, block, needle, users)
        for cause, fields, evidence in self.yielding:
            if self.matched.get(evidence.line) != frozenset():
                self._match(evidence.line, cause)
                self.add(cause, fields, evidence)
        self.errors.take(name, block, self.matched, needles)
        self._drop_survived(name, block)
        self.overview.take(name, block)

    def _drop_survived(self, name: str, block: Block) -> None:
        """Remove lines of survivable causes if progress or success follows them in the same log."""
        weak = [one for one in self.findings.values() if one.cause.survivable]
        if not any(line.file == name for one in weak for line in one.evidence):
            return
        last = self.errors.find_last_progress(name, block)
        for finding in weak:
            if finding.last[0] == name and finding.last[1] < last:
                finding.evidence[:] = [one for one in finding.evidence if one.file != name]
                finding.count = len(finding.evidence)

    def _search(self, name: str, block: Block, needle: str, users: Users) -> None:
        if needle in FACT_NEEDLES and self.hits[name, needle] > MOST_FACTS:
            return
        at = block.text.find(needle, block.start, block.stop + len(needle) - 1)
        while at != -1:
            end = self._look(name, block, at, needle, users)
            if end < 0:
                return
            at = block.text.find(needle, end, block.stop + len(needle) - 1)

    def _look(
        self,
        name: str,
        block: Block,
        at: int,
        needle: str,
        users: Users,
    ) -> int:
        self.hits[name, needle] += 1
        hits = self.hits[name, needle]
        if hits > MOST_HITS:
            return -1
        start, end = find_line_bounds(block.text, at, 0)
        shown = block.text[start:end]
        for user, pattern in users:
            if isinstance(user, Fact) and hits > MOST_FACTS:
                continue
            low = find_line_bounds(block.text, at, pattern.before)[0] if pattern.before else start
            found = pattern.compiled.search(block.text[low:end])
            if found:
                line = block.line + block.text.count("\n", block.start, start)
                evidence = LogLine(
                    name, line, clean_and_shorten(shown.strip()), parse_line_rank(shown)
                )
                self._found(user, pattern, found, evidence)
        return end + 1

    def _found(
        self, user: LogCause | Fact, pattern: Pattern, found: re.Match[str], evidence: LogLine
    ) -> None:
        if isinstance(user, Fact):
            self.known.add(user.name, found, evidence)
            return
        fields = dict(pattern.fields)
        fields |= {group: value or "" for group, value in found.groupdict().items()}
        derived = user.derive(fields, self.options) if user.derive else fields
        if derived is not None:
            if user.after_end and self._is_teardown(evidence):
                user = CAUSES[user.after_end]
            if user.yields:
                self.yielding.append((user, dict(derived), evidence))
                return
            self._match(evidence.line, user)
            self.add(user, dict(derived), evidence)

    def _is_teardown(self, evidence: LogLine) -> bool:
        is_error = classify_line(evidence.text) not in (None, ErrorKind.WARNING)
        return not is_error and self.errors.has_finished_before(evidence.file, evidence.line)

    def _match(self, line: int, cause: LogCause) -> None:
        gated = frozenset((cause.code,)) if cause.only_with else frozenset()
        known = self.matched.get(line)
        self.matched[line] = (
            gated if known is None else known | gated if known and gated else frozenset()
        )

    def add(self, cause: LogCause, fields: dict[str, str], evidence: LogLine) -> None:
        """Count a match, and keep its line when it says more."""
        key = (cause.code, *(fields.get(name, "")[:200] for name in cause.key))
        finding = self.findings.get(key)
        if finding is None:
            if sum(1 for known in self.findings if known[0] == cause.code) >= MOST_KEYS:
                self.left_out[cause.code] += 1
                return
            finding = self.findings[key] = LogFinding(
                cause, {k: v[:400] for k, v in fields.items()}
            )
        for name, value in fields.items():
            if finding.fields.get(name, "") in ("", "?"):
                finding.fields[name] = value[:400]
        if finding.last == (evidence.file, evidence.line):
            return
        finding.last = (evidence.file, evidence.line)
        finding.count += 1
        lines = finding.evidence
        if any((e.file, e.line) == finding.last for e in lines):
            finding.count -= 1
        elif len(lines) < MOST_LINES and (
            len(lines) < SAME_FILE or all(e.file != evidence.file for e in lines)
        ):
            lines.append(evidence)


@dataclass
class LogVerdict:
    """The outcome.

    Attributes:
        heads: root causes first, with their consequences below them.
        harmless: harmless warnings.
        overview: what was read.
    """

    heads: list[LogFinding]
    harmless: list[LogFinding]
    overview: Overview = field(default_factory=Overview)

    @property
    def bad(self) -> bool:
        """Return whether there is a problem."""
        return bool(self.heads)


def can_explain_finding(parent: LogFinding, child: LogFinding) -> bool:
    """Return whether *child* follows from *parent*."""
    if parent is child or parent.code == child.code:
        return False
    if parent.severity == Severity.UNKNOWN:
        return child.cause.is_pointer or (is_certain_error(parent) and child.cause.follows_any)
    wide = child.cause.follows_any and parent.severity == Severity.CAUSE
    if not wide and not any(
        child.code in one.codes and one.relation(parent, child) for one in parent.cause.explains
    ):
        return False
    one, other = parent.fields.get("rank", "?"), child.fields.get("rank", "?")
    known = "rank" in child.cause.key and one.isdecimal() and other.isdecimal()
    return not known or one == other


def is_certain_error(finding: LogFinding) -> bool:
    """Return whether unknown errors have an exception or a crash, from which symptoms in other lines follow."""
    return bool(finding.fields.get("strong"))


def log_finding_sort_key(finding: LogFinding) -> tuple[int, int, int]:
    """Sort causes before symptoms, then by certainty, then by number of matches."""
    severity = finding.severity
    if severity == Severity.UNKNOWN:
        return 1 if is_certain_error(finding) else 3, 0, 0
    return 2 if severity == Severity.SYMPTOM else 0, -finding.cause.weight, -finding.count


def add_finding_context(head: LogFinding, evidence: LogEvidence) -> None:
    """Add details about a finding from other lines and from the plan."""
    extra = [head.fields.get("range_note", "")]
    extra += [head.cause.describe(head, evidence)] if head.cause.describe else []
    known = evidence.facts
    rank = head.fields.get("rank", "")
    if "rank" in head.cause.key and rank.isdecimal():
        host = known.host_of(rank)
        if host:
            extra.append(f"Rank {rank} runs on {clean_and_shorten(host)}.")
        elif known.ranks() and rank not in known.ranks():
            extra.append(f"None of the given logs is of rank {rank}.")
    head.extra = " ".join(text for text in extra if text)


def judge_logs(tally: Tally) -> LogVerdict:
    """Return the verdict about all logs."""
    found = list(tally.findings.values())
    evidence = LogEvidence(tally.known, found, tally.overview.last)
    for cause in sorted(CAUSES.values(), key=lambda one: one.is_last_resort):
        found += list(cause.find(evidence)) if cause.find else []
    codes = {finding.code for finding in found}
    kept = [
        f
        for f in found
        if f.count >= f.cause.least
        and (f.count or not f.cause.survivable)
        and (not f.cause.only_with or codes.intersection(f.cause.only_with))
    ]
    for finding in kept:
        finding.capped = any(
            tally.hits[e.file, pattern.needle] > MOST_HITS
            for e in finding.evidence
            for pattern in finding.cause.patterns
        )
    is_unexplained = not any(f.severity == Severity.CAUSE for f in kept)
    if is_unexplained or codes.intersection(ENDS):
        own = tally.errors.find_own_error()
        kept += [own] if own is not None else []
    if not any(f.severity == Severity.CAUSE for f in kept):
        is_alone = all(f.severity == Severity.HARMLESS for f in kept)
        kept += tally.errors.findings({f.code for f in kept}, is_alone=is_alone)
    heads = fold_findings(
        [f for f in kept if f.severity != Severity.HARMLESS],
        can_explain_finding,
        log_finding_sort_key,
    )
    for head in heads:
        add_finding_context(head, evidence)
    replaced = {quiet for f in found for quiet in f.cause.replaces}
    harmless = [f for f in kept if f.severity == Severity.HARMLESS and f.code not in replaced]
    tally.overview.facts = tally.known
    return LogVerdict(heads, sorted(harmless, key=lambda finding: finding.code), tally.overview)
