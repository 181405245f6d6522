"""From matches to a ranked list: root causes first, what follows from them folded under them. Pure."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from fullmesh.explain import gloo, launch, libraries, nccl, services, store, system, unknown
from fullmesh.explain.error_lines import ErrorKind, classify_line
from fullmesh.explain.facts import FACTS, LogFacts, describe_late_ranks, find_derived_causes
from fullmesh.explain.model import (
    ANY_CAUSE,
    Evidence,
    ExplainOptions,
    Fact,
    LogCause,
    LogFinding,
    Pattern,
    Severity,
    parse_line_rank,
)
from fullmesh.explain.reader import Block, find_line_bounds
from fullmesh.explain.unknown import UnknownErrors
from fullmesh.printed import clean_and_shorten

FAMILIES = {
    "gloo": ("Gloo", gloo.CAUSES),
    "store": ("The store (TCPStore, c10d)", store.CAUSES),
    "launch": ("Start and end (torchrun, torch.distributed, Lightning)", launch.CAUSES),
    "nccl": ("NCCL", nccl.CAUSES),
    "system": ("The node: kernel, GPU, limits", system.CAUSES),
    "services": ("Ray, JAX, vLLM, SGLang, DeepSpeed, Accelerate", services.CAUSES),
    "libraries": ("HCCL, NVSHMEM, Open MPI, Horovod, pyxis", libraries.CAUSES),
    "unknown": ("Errors that no rule knows", unknown.CAUSES),
}
CAUSES: dict[str, LogCause] = {
    cause.code: cause for _, (_, causes) in FAMILIES.items() for cause in causes
}
CODES = {code: cause.title for code, cause in sorted(CAUSES.items())}
EVIDENCE = 4  # lines shown of a finding, of as many files as there are
SAME_FILE = 2
MOST_KEYS = 24  # findings of one code; a hostile log can name any number of addresses
MOST_HITS = 20000  # lines per file and needle that are looked at closely
MOST_FACTS = 400
# a cause, and the harmless warning that it is made of
INSTEAD = {"LG-420": "LG-901", "LG-426": "LG-902", "LG-685": "LG-961"}
STORE_CODES = ("LG-202", "LG-203", "LG-204")
# what ranks log when another one ends; harmless after the job's own end, unless it is an error
TEARDOWN = {"LG-215": "LG-914", "LG-421": "LG-914"}
# symptoms that say no more than that something failed; the reason is in another line of the same log
POINTERS = ("LG-304", "LG-308", "LG-310", "LG-422")
LOOKUPS = 3  # of a name without a connection attempt: it leads nowhere


Users = list[tuple[LogCause | Fact, Pattern]]
# text that many needles have in common: a block without it has none of them
GATES = (
    *("rror", "ailed", "ignal", "onnect", "rocess", "errno", "ddress", "nccl", "evice", "imed out"),
    *("_ERROR", "ble", "cted", "ver", "ize", "tin", "ound", "start"),
)


def _index_patterns() -> dict[str, Users]:
    table: dict[str, Users] = defaultdict(list)
    for cause in CAUSES.values():
        for pattern in cause.patterns:
            table[pattern.needle].append((cause, pattern))
    for fact in FACTS:
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


@dataclass
class Tally:
    """What the logs have shown so far; grows with the number of causes, not with the logs."""

    options: ExplainOptions
    findings: dict[tuple[str, ...], LogFinding] = field(default_factory=dict)
    known: LogFacts = field(default_factory=LogFacts)
    hits: dict[tuple[str, str], int] = field(default_factory=lambda: defaultdict(int))
    left_out: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    errors: UnknownErrors = field(default_factory=UnknownErrors)
    # lines of the block at hand that a rule matches -> the rules that may be dropped at the end; none if one stays
    matched: dict[int, frozenset[str]] = field(default_factory=dict)

    def take(self, name: str, block: Block) -> None:
        """Look through one block of a log."""
        self.matched.clear()
        self.errors.note_end(name, block)
        for gate, needles in GATED.items():
            # a needle that begins in this block may end behind it
            if block.text.find(gate, block.start, block.stop + LONGEST_NEEDLE) != -1:
                for needle, users in needles.items():
                    self._search(name, block, needle, users)
        self.errors.take(name, block, self.matched)

    def _search(self, name: str, block: Block, needle: str, users: Users) -> None:
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
        line = block.line + block.text.count("\n", block.start, start)
        shown = block.text[start:end]
        for user, pattern in users:
            if isinstance(user, Fact) and hits > MOST_FACTS:
                continue
            low = find_line_bounds(block.text, at, pattern.before)[0] if pattern.before else start
            found = pattern.compiled.search(block.text[low:end])
            if found:
                evidence = Evidence(
                    name, line, clean_and_shorten(shown.strip()), parse_line_rank(shown)
                )
                self._found(user, pattern, found, evidence)
        return end + 1

    def _found(
        self, user: LogCause | Fact, pattern: Pattern, found: re.Match[str], evidence: Evidence
    ) -> None:
        if isinstance(user, Fact):
            self.known.add(user.name, found, evidence)
            return
        fields = dict(pattern.fields)
        fields |= {group: value or "" for group, value in found.groupdict().items()}
        told = user.derive(fields, self.options) if user.derive else fields
        if told is not None:
            if user.code in TEARDOWN and self._is_teardown(evidence):
                user = CAUSES[TEARDOWN[user.code]]
            self._match(evidence.line, user)
            self.add(user, dict(told), evidence)

    def _is_teardown(self, evidence: Evidence) -> bool:
        is_error = classify_line(evidence.text) not in (None, ErrorKind.WARNING)
        return not is_error and self.errors.has_finished_before(evidence.file, evidence.line)

    def _match(self, line: int, cause: LogCause) -> None:
        gated = frozenset((cause.code,)) if cause.needs else frozenset()
        known = self.matched.get(line)
        self.matched[line] = (
            gated if known is None else known | gated if known and gated else frozenset()
        )

    def add(self, cause: LogCause, fields: dict[str, str], evidence: Evidence) -> None:
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
        elif len(lines) < EVIDENCE and (
            len(lines) < SAME_FILE or all(e.file != evidence.file for e in lines)
        ):
            lines.append(evidence)


@dataclass
class LogVerdict:
    """The outcome.

    Attributes:
        heads: what was found, root causes first; the rest hangs below them.
        harmless: warnings that mean nothing bad.
    """

    heads: list[LogFinding]
    harmless: list[LogFinding]

    @property
    def bad(self) -> bool:
        """Whether anything is wrong."""
        return bool(self.heads)


def can_explain_finding(parent: LogFinding, child: LogFinding) -> bool:
    """Whether *child* follows from *parent*."""
    if parent is child or parent.code == child.code:
        return False
    if parent.cause.severity is Severity.UNKNOWN:
        return child.code in POINTERS or (
            is_certain_error(parent) and ANY_CAUSE in child.cause.follows
        )
    wide = ANY_CAUSE in child.cause.follows and parent.cause.severity is Severity.CAUSE
    if not wide and parent.code not in child.cause.follows:
        return False
    one, other = parent.fields.get("rank", "?"), child.fields.get("rank", "?")
    known = "rank" in child.cause.key and one.isdecimal() and other.isdecimal()
    return not known or one == other


def is_certain_error(finding: LogFinding) -> bool:
    """Whether unknown errors have an exception or a crash, from which symptoms in other lines follow."""
    return bool(finding.fields.get("strong"))


def log_finding_sort_key(finding: LogFinding) -> tuple[int, int, int]:
    """Causes before symptoms, the more certain mechanism first, then what was seen more often."""
    severity = finding.cause.severity
    if severity is Severity.UNKNOWN:
        return 1 if is_certain_error(finding) else 3, 0, 0
    return 2 if severity is Severity.SYMPTOM else 0, -finding.cause.weight, -finding.count


def fold_log_findings(findings: Sequence[LogFinding]) -> list[LogFinding]:
    """Hang everything below what explains it; what nothing explains is a head."""
    ranked = sorted(findings, key=log_finding_sort_key)
    parents: dict[int, LogFinding] = {}
    for child in ranked:
        parent = next((other for other in ranked if can_explain_finding(other, child)), None)
        if parent is not None:
            parents[id(child)] = parent
    heads = []
    for finding in ranked:
        root, seen = finding, {id(finding)}
        while id(root) in parents and id(parents[id(root)]) not in seen:
            root = parents[id(root)]
            seen.add(id(root))
        if root is finding:
            heads.append(finding)
        else:
            root.follows.append(finding)
    return heads


def find_different_ports(findings: Iterable[LogFinding]) -> LogFinding | None:
    """Two logs that look for one store at two ports."""
    stores = [finding for finding in findings if finding.code == "LG-202"]
    for one in stores:
        for other in stores:
            ports = {one.fields["port"], other.fields["port"]}
            same_host = one.fields["host"] == other.fields["host"]
            apart = {e.file for e in one.evidence}.isdisjoint(e.file for e in other.evidence)
            if same_host and apart and len(ports) == 2 and "29400" not in ports:  # noqa: PLR2004 (two ports)
                places = " and ".join(
                    f"{f.fields['host']}:{f.fields['port']}" for f in (one, other)
                )
                lines = [one.evidence[0], other.evidence[0]]
                return LogFinding(CAUSES["LG-209"], {"places": places}, lines, len(lines))
    return None


def find_mutual_waits(findings: Sequence[LogFinding]) -> LogFinding | None:
    """The passive end's line in the logs of several ranks, and no cause anywhere: silence in between."""
    if any(finding.cause.severity is Severity.CAUSE for finding in findings):
        return None
    waited = [finding for finding in findings if finding.code == "LG-105"]
    lines = {e.file: e for finding in waited for e in finding.evidence}
    return (
        LogFinding(CAUSES["LG-115"], {}, list(lines.values()), len(lines))
        if len(lines) > 1
        else None
    )


def find_unresolved_names(findings: Sequence[LogFinding]) -> list[LogFinding]:
    """Names of a store that were looked up again and again without one connection attempt.

    torch 2.13 prints the IPv6 failure only, also where IPv4 fails; an attempt that is dropped takes one look-up, one
    that is rejected leaves an errno (recorded: six look-ups in 8 s for a name that nobody knows).
    """
    if any(finding.code in ("LG-205", "LG-206") for finding in findings):
        return []
    looked = {f.fields["host"]: f for f in findings if f.code == "LG-905"}
    made = []
    for finding in findings:
        tried = looked.get(finding.fields.get("host", "")) if finding.code in STORE_CODES else None
        if tried is not None and tried.count >= LOOKUPS:
            fields = {"host": tried.fields["host"], "reason": "looked up again and again"}
            made.append(LogFinding(CAUSES["LG-206"], fields, tried.evidence, tried.count))
    return made


def add_finding_context(head: LogFinding, known: LogFacts) -> None:
    """Add what other lines and the plan tell about a finding."""
    extra = [head.fields.get("range_note", "")]
    if head.code in STORE_CODES:
        children = [child for child in head.follows if child.code == "LG-205"]
        extra += [f"Connections are {child.fields['verdict']}." for child in children[:1]]
    if head.code == "LG-415":
        extra.append(describe_late_ranks(known))
    rank = head.fields.get("rank", "")
    if "rank" in head.cause.key and rank.isdecimal():
        host = known.host_of(rank)
        if host:
            extra.append(f"Rank {rank} runs on {clean_and_shorten(host)}.")
        elif known.ranks() and rank not in known.ranks():
            extra.append(f"None of the given logs is of rank {rank}.")
    head.extra = " ".join(text for text in extra if text)


def judge_logs(tally: Tally) -> LogVerdict:
    """The verdict over everything that was read."""
    found = list(tally.findings.values())
    codes = {finding.code for finding in found}
    for draw in find_derived_causes(tally.known, codes):
        cause = CAUSES[draw.code]
        found.append(LogFinding(cause, draw.fields, draw.evidence[:EVIDENCE], len(draw.evidence)))
    if (ports := find_different_ports(found)) is not None:
        found.append(ports)
    found += find_unresolved_names(found)
    if (silence := find_mutual_waits(found)) is not None:
        found.append(silence)
    codes |= {finding.code for finding in found}
    kept = [
        f
        for f in found
        if f.count >= f.cause.least and (not f.cause.needs or codes.intersection(f.cause.needs))
    ]
    for finding in kept:
        finding.capped = any(
            tally.hits[e.file, pattern.needle] > MOST_HITS
            for e in finding.evidence
            for pattern in finding.cause.patterns
        )
    if not any(f.cause.severity is Severity.CAUSE for f in kept):
        kept += tally.errors.findings({f.code for f in kept})
    heads = fold_log_findings([f for f in kept if f.cause.severity is not Severity.HARMLESS])
    for head in heads:
        add_finding_context(head, tally.known)
    replaced = {quiet for loud, quiet in INSTEAD.items() if loud in codes}
    harmless = [f for f in kept if f.cause.severity is Severity.HARMLESS and f.code not in replaced]
    return LogVerdict(heads, sorted(harmless, key=lambda finding: finding.code))
