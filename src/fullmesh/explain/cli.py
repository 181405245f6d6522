"""The verbs ``explain-log`` and ``explain``."""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Sequence
from typing import Any

from fullmesh.explain import pages
from fullmesh.explain.judge import Tally, Verdict, judge
from fullmesh.explain.model import Finding, Options, Severity
from fullmesh.explain.reader import MOST_FILES, Log, expand, read
from fullmesh.explain.records import Records, Told
from fullmesh.hang.plain_pickle import RefusedError
from fullmesh.hang.types import CAUSE
from fullmesh.model.ports import parse_range
from fullmesh.observed.ports import PortRange
from fullmesh.printed import clean, print_error, print_text
from fullmesh.settings import STARTED_IN

OK, PROBLEM, USAGE = 0, 1, 2
SCHEMA = 1
DEADLINE, LONGEST = 300.0, 86400.0  # seconds


def register(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add both verbs."""
    text = "name the causes in the logs of a failed job; offline, changes nothing"
    parser = verbs.add_parser(
        "explain-log",
        help=text,
        description=f"{text}. Exit code 0: nothing wrong, 1: a cause was found.",
    )
    parser.add_argument(
        "file",
        nargs="+",
        help="logs or Flight Recorder dumps of one or more ranks, a directory of them, or - for stdin",
    )
    parser.add_argument(
        "--data-ports",
        metavar="A-B",
        default="",
        help="the plan's data range, to judge the ports in the logs",
    )
    parser.add_argument("--json", action="store_true", help="for programs")
    parser.add_argument(
        "--deadline",
        metavar="SECONDS",
        type=float,
        default=DEADLINE,
        help=f"stop reading after (default {DEADLINE:g})",
    )
    parser.set_defaults(func=run_log)
    text = "print what a code means and what to do; offline"
    parser = verbs.add_parser("explain", help=text, description=text)
    parser.add_argument("code", help="like LG-102, VC-202 or PF-110")
    parser.set_defaults(func=run_code)


def fail(code: str, text: str) -> int:
    """Say a fault of usage."""
    print_error(f"fullmesh: [{code}] {clean(text, 1000)}")
    return USAGE


def run_code(args: argparse.Namespace) -> int:
    """``fullmesh explain CODE``."""
    from fullmesh import codes  # noqa: PLC0415 (codes imports the command line, which imports this)

    known = codes.all_codes()
    code = str(args.code).strip().strip("[]").upper()
    if code not in known:
        maybe = ", ".join(pages.nearest(code, list(known)))
        return fail(
            "CL-109",
            f"there is no code {args.code!r}. Near it: {maybe}; docs/errors.md has them all.",
        )
    print_text(pages.explain(code, known[code], codes.OWNERS).rstrip("\n"))
    return OK


def _range(text: str) -> PortRange | None:
    return parse_range(text) if text else None


def run_log(args: argparse.Namespace) -> int:
    """``fullmesh explain-log FILE...``."""
    try:
        options = Options(_range(args.data_ports))
    except ValueError as exc:
        return fail("CL-111", f"--data-ports: {exc}")
    tally, records, logs, unread = Tally(options), Records(), [], 0
    deadline = time.monotonic() + min(max(0.0, args.deadline), LONGEST)
    for name, path in expand(args.file, STARTED_IN):
        log = Log(clean(name))
        try:
            for block in read(log, path, deadline, records):
                tally.take(log.name, block)
        except RefusedError as exc:
            unread += 1
            fail(exc.code, f"{name} begins as a rank's record: {exc}.")
            continue
        except (OSError, ValueError) as exc:
            unread += 1
            fail(
                "CL-110",
                f"cannot read {name}: {getattr(exc, 'strerror', None) or exc}. Name a file, a directory or -.",
            )
            continue
        logs.append(log)
    verdict, found = judge(tally), records.findings()
    out = as_json(verdict, logs, found) if args.json else as_text(verdict, logs, found)
    print_text(out.rstrip("\n"))
    if verdict.bad or any(one.severity == CAUSE for one in found):
        return PROBLEM
    return USAGE if unread or not logs else OK


def as_json(verdict: Verdict, logs: list[Log], found: Sequence[Told] = ()) -> str:
    """The verdict for programs, what the ranks' records say first."""
    data = {
        "schema": SCHEMA,
        "findings": [
            *(one.as_dict() for one in found),
            *(_data(head) for head in verdict.heads),
        ],
        "harmless": [_data(finding) for finding in verdict.harmless],
        "logs": [{"name": log.name, "bytes": log.size, "note": log.note} for log in logs],
    }
    return json.dumps(data, indent=2, ensure_ascii=True) + "\n"


def _data(finding: Finding) -> dict[str, Any]:
    return {
        "code": finding.code,
        "severity": str(finding.cause.severity),
        "cause": finding.sentence,
        "where": finding.where,
        "evidence": [
            {"file": e.file, "line": e.line, "rank": e.rank, "text": e.text}
            for e in finding.evidence
        ],
        "count": finding.count,
        "prove": finding.prove,
        "fix": finding.fix,
        "page": pages.page_of(finding.code),
        "follows": [_data(child) for child in finding.follows],
    }


def as_text(verdict: Verdict, logs: list[Log], found: Sequence[Told] = ()) -> str:
    """The verdict for people."""
    lines: list[str] = []
    for number, one in enumerate(found, 1):
        lines += [*one.as_lines(number), ""]
    for number, head in enumerate(verdict.heads, len(found) + 1):
        lines += [*_head(number, head), ""]
    if verdict.harmless:
        lines.append("Harmless, not the cause:")
        lines += [f"  [{f.code}] {f.sentence} ({_place(f)})" for f in verdict.harmless]
        lines.append("")
    lines += [f"Note: {log.name}: {log.note}." for log in logs if log.note]
    if len(logs) >= MOST_FILES:
        lines.append(f"Note: only the first {MOST_FILES} files were read.")
    return "\n".join([*lines, _last_line(verdict, logs, found)]) + "\n"


def _head(number: int, head: Finding) -> list[str]:
    symptom = head.cause.severity is Severity.SYMPTOM
    mark = " (a symptom; its cause is not in these logs)" if symptom else ""
    lines = [f"{number}. [{head.code}] {head.sentence}{mark}"]
    lines += [f"   broken end: {head.where}"] if head.where else []
    for index, evidence in enumerate(head.evidence):
        rank = f" (rank {evidence.rank})" if evidence.rank else ""
        lines.append(
            f"   {'seen:' if not index else '     '} {evidence.file}:{evidence.line}{rank}: {evidence.text}"
        )
    if head.count > len(head.evidence):
        lines.append(
            f"         and {'at least ' if head.capped else ''}{head.count - len(head.evidence)} more like these"
        )
    lines += [
        f"   prove: {head.prove}",
        f"   fix:  {head.fix}",
        f"   page:  {pages.page_of(head.code)}",
    ]
    lines += [
        f"   follows from it: [{child.code}] {child.cause.title} ({_place(child)})"
        for child in head.follows
    ]
    return lines


def _place(finding: Finding) -> str:
    first = finding.evidence[0]
    times = f", {finding.count} times" if finding.count > 1 else ""
    return f"{first.file}:{first.line}{times}"


def _last_line(verdict: Verdict, logs: list[Log], found: Sequence[Told]) -> str:
    size = sum(log.size for log in logs)
    read_text = f"{len(logs)} log{'s' if len(logs) != 1 else ''} read, {size} bytes"
    if not verdict.heads and not found:
        return (
            f"{read_text}: nothing wrong found. A hang often leaves no line: ./fullmesh verify -i"
            " INVENTORY tests the nodes."
        )
    symptoms = sum(head.cause.severity is not Severity.CAUSE for head in verdict.heads)
    causes = len(verdict.heads) - symptoms + sum(one.severity == CAUSE for one in found)
    rest = symptoms
    unexplained = f", {rest} symptom{'s' if rest != 1 else ''} without a cause" if rest else ""
    return (
        f"{read_text}: {causes} cause{'s' if causes != 1 else ''}{unexplained}. ./fullmesh"
        " explain CODE prints a page."
    )
