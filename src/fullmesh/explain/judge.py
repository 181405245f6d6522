"""From matches to a ranked list: root causes first, what follows from them folded under them. Pure."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from fullmesh.explain import gloo, launch, nccl, services, store, system
from fullmesh.explain.facts import FACTS, Known, behind, drawn
from fullmesh.explain.model import (
    ANY_CAUSE,
    Cause,
    Evidence,
    Fact,
    Finding,
    Options,
    Pattern,
    Severity,
)
from fullmesh.explain.reader import Block
from fullmesh.printed import clean

FAMILIES = {
    "gloo": ("Gloo", gloo.CAUSES),
    "store": ("The store (TCPStore, c10d)", store.CAUSES),
    "launch": ("Start and end (torchrun, torch.distributed, Lightning)", launch.CAUSES),
    "nccl": ("NCCL", nccl.CAUSES),
    "system": ("The node: kernel, GPU, limits", system.CAUSES),
    "services": ("Ray, JAX, vLLM, SGLang, DeepSpeed, Accelerate", services.CAUSES),
}
CAUSES: dict[str, Cause] = {
    cause.code: cause for _, (_, causes) in FAMILIES.items() for cause in causes
}
CODES = {code: cause.title for code, cause in sorted(CAUSES.items())}
WINDOW = 3000  # characters of a line on either side of the needle that a regex sees
EVIDENCE = 4  # lines shown of a finding, of as many files as there are
SAME_FILE = 2
MOST_KEYS = 24  # findings of one code; a hostile log can name any number of addresses
MOST_HITS = 20000  # lines per file and needle that are looked at closely
MOST_FACTS = 400
LINE_RANK = re.compile(r"\[[Rr]ank ?(\d{1,7})\]|^\[\d+,(\d{1,7})\]<")
# a cause, and the harmless warning that it is made of
INSTEAD = {"LG-420": "LG-901", "LG-426": "LG-902"}
STORE_CODES = ("LG-202", "LG-203", "LG-204")
LOOKUPS = 3  # of a name without a connection attempt: it leads nowhere


def _by_needle() -> dict[str, list[tuple[Cause | Fact, Pattern]]]:
    table: dict[str, list[tuple[Cause | Fact, Pattern]]] = defaultdict(list)
    for cause in CAUSES.values():
        for pattern in cause.patterns:
            table[pattern.needle].append((cause, pattern))
    for fact in FACTS:
        table[fact.pattern.needle].append((fact, fact.pattern))
    return dict(table)


NEEDLES = _by_needle()


def line_around(text: str, at: int, before: int) -> tuple[int, int]:
    """The bounds of the line at a position, with whole lines before it, at most WINDOW to each side."""
    low, high = max(0, at - WINDOW), min(len(text), at + WINDOW)
    start = max(text.rfind("\n", low, at), text.rfind("\r", low, at)) + 1 or low
    for _ in range(before):
        start = (text.rfind("\n", low, start - 1) + 1 or low) if start > low else low
    ends = [end for end in (text.find("\n", at, high), text.find("\r", at, high)) if end != -1]
    return start, min(ends, default=high)


@dataclass
class Tally:
    """What the logs have shown so far; grows with the number of causes, not with the logs."""

    options: Options
    findings: dict[tuple[str, ...], Finding] = field(default_factory=dict)
    known: Known = field(default_factory=Known)
    hits: dict[tuple[str, str], int] = field(default_factory=lambda: defaultdict(int))
    left_out: dict[str, int] = field(default_factory=lambda: defaultdict(int))

    def take(self, name: str, block: Block) -> None:
        """Look through one block of a log."""
        for needle, users in NEEDLES.items():
            at = block.text.find(needle, block.start, block.stop + len(needle) - 1)
            while at != -1:
                end = self._look(name, block, at, needle, users)
                if end < 0:
                    break
                at = block.text.find(needle, end, block.stop + len(needle) - 1)

    def _look(
        self,
        name: str,
        block: Block,
        at: int,
        needle: str,
        users: Iterable[tuple[Cause | Fact, Pattern]],
    ) -> int:
        self.hits[name, needle] += 1
        hits = self.hits[name, needle]
        if hits > MOST_HITS:
            return -1
        start, end = line_around(block.text, at, 0)
        line = block.line + block.text.count("\n", block.start, start)
        shown = block.text[start:end]
        for user, pattern in users:
            if isinstance(user, Fact) and hits > MOST_FACTS:
                continue
            low = line_around(block.text, at, pattern.before)[0] if pattern.before else start
            found = pattern.compiled.search(block.text[low:end])
            if found:
                self._found(user, found, name, line, shown)
        return end + 1

    def _found(
        self, user: Cause | Fact, found: re.Match[str], name: str, line: int, text: str
    ) -> None:
        rank = LINE_RANK.search(text)
        evidence = Evidence(name, line, clean(text.strip()), (rank[1] or rank[2]) if rank else "")
        if isinstance(user, Fact):
            self.known.add(user.name, found, evidence)
            return
        fields = {group: value or "" for group, value in found.groupdict().items()}
        told = user.derive(fields, self.options) if user.derive else fields
        if told is not None:
            self.add(user, dict(told), evidence)

    def add(self, cause: Cause, fields: dict[str, str], evidence: Evidence) -> None:
        """Count a match, and keep its line when it says more."""
        key = (cause.code, *(fields.get(name, "")[:200] for name in cause.key))
        finding = self.findings.get(key)
        if finding is None:
            if sum(1 for known in self.findings if known[0] == cause.code) >= MOST_KEYS:
                self.left_out[cause.code] += 1
                return
            finding = self.findings[key] = Finding(cause, {k: v[:400] for k, v in fields.items()})
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
class Verdict:
    """The outcome.

    Attributes:
        heads: what was found, root causes first; the rest hangs below them.
        harmless: warnings that mean nothing bad.
    """

    heads: list[Finding]
    harmless: list[Finding]

    @property
    def bad(self) -> bool:
        """Whether anything is wrong."""
        return bool(self.heads)


def explains(parent: Finding, child: Finding) -> bool:
    """Whether *child* follows from *parent*."""
    if parent is child or parent.code == child.code:
        return False
    wide = ANY_CAUSE in child.cause.follows and parent.cause.severity is Severity.CAUSE
    if not wide and parent.code not in child.cause.follows:
        return False
    one, other = parent.fields.get("rank", "?"), child.fields.get("rank", "?")
    known = "rank" in child.cause.key and one.isdecimal() and other.isdecimal()
    return not known or one == other


def order(finding: Finding) -> tuple[bool, int, int]:
    """Causes before symptoms, the more certain mechanism first, then what was seen more often."""
    return finding.cause.severity is Severity.SYMPTOM, -finding.cause.weight, -finding.count


def fold(findings: Sequence[Finding]) -> list[Finding]:
    """Hang everything below what explains it; what nothing explains is a head."""
    ranked = sorted(findings, key=order)
    parents: dict[int, Finding] = {}
    for child in ranked:
        parent = next((other for other in ranked if explains(other, child)), None)
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


def different_ports(findings: Iterable[Finding]) -> Finding | None:
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
                return Finding(CAUSES["LG-209"], {"places": places}, lines, len(lines))
    return None


def both_waited(findings: Sequence[Finding]) -> Finding | None:
    """The passive end's line in the logs of several ranks, and no cause anywhere: silence in between."""
    if any(finding.cause.severity is Severity.CAUSE for finding in findings):
        return None
    waited = [finding for finding in findings if finding.code == "LG-105"]
    lines = {e.file: e for finding in waited for e in finding.evidence}
    return (
        Finding(CAUSES["LG-115"], {}, list(lines.values()), len(lines)) if len(lines) > 1 else None
    )


def unresolved(findings: Sequence[Finding]) -> list[Finding]:
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
            made.append(Finding(CAUSES["LG-206"], fields, tried.evidence, tried.count))
    return made


def enrich(head: Finding, known: Known) -> None:
    """Add what other lines and the plan tell about a finding."""
    extra = [head.fields.get("range_note", "")]
    if head.code in STORE_CODES:
        children = [child for child in head.follows if child.code == "LG-205"]
        extra += [f"Connections are {child.fields['verdict']}." for child in children[:1]]
    if head.code == "LG-415":
        extra.append(behind(known))
    rank = head.fields.get("rank", "")
    if "rank" in head.cause.key and rank.isdecimal():
        host = known.host_of(rank)
        if host:
            extra.append(f"Rank {rank} runs on {clean(host)}.")
        elif known.ranks() and rank not in known.ranks():
            extra.append(f"None of the given logs is of rank {rank}.")
    head.extra = " ".join(text for text in extra if text)


def judge(tally: Tally) -> Verdict:
    """The verdict over everything that was read."""
    found = list(tally.findings.values())
    codes = {finding.code for finding in found}
    for draw in drawn(tally.known, codes):
        cause = CAUSES[draw.code]
        found.append(Finding(cause, draw.fields, draw.evidence[:EVIDENCE], len(draw.evidence)))
    if (ports := different_ports(found)) is not None:
        found.append(ports)
    found += unresolved(found)
    if (silence := both_waited(found)) is not None:
        found.append(silence)
    codes |= {finding.code for finding in found}
    kept = [f for f in found if not f.cause.needs or codes.intersection(f.cause.needs)]
    for finding in kept:
        finding.capped = any(
            tally.hits[e.file, pattern.needle] > MOST_HITS
            for e in finding.evidence
            for pattern in finding.cause.patterns
        )
    heads = fold([f for f in kept if f.cause.severity is not Severity.HARMLESS])
    for head in heads:
        enrich(head, tally.known)
    replaced = {quiet for loud, quiet in INSTEAD.items() if loud in codes}
    harmless = [f for f in kept if f.cause.severity is Severity.HARMLESS and f.code not in replaced]
    return Verdict(heads, sorted(harmless, key=lambda finding: finding.code))
