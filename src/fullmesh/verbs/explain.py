"""The verbs ``explain-log`` and ``explain``."""

from __future__ import annotations

import argparse
import contextlib
import json
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from fullmesh.catalogue import add_verb
from fullmesh.causes.engine import load_cause
from fullmesh.causes.logs import ExplainOptions, LogFinding, Severity
from fullmesh.causes.pages import explain_cause, format_page_link
from fullmesh.explain.judge import LogVerdict, Tally, judge_logs
from fullmesh.explain.reader import MOST_FILES, Log, Source, list_log_sources, read_log_blocks
from fullmesh.explain.unpack import UnreadableLogError
from fullmesh.hang.plain_pickle import RefusedRecordError
from fullmesh.model.ports import parse_range
from fullmesh.observed.ports import PortRange
from fullmesh.printed import clean_and_shorten, format_label, print_error, print_text
from fullmesh.settings import STARTED_IN

if TYPE_CHECKING:
    from fullmesh.explain.records import RankRecords, RecordFinding

OK, PROBLEM, USAGE = (
    0,
    1,
    2,
)  # no problem, a finding, and wrong usage or a log that was not read completely
SCHEMA = 1
DEADLINE, LONGEST = 300.0, 86400.0  # seconds


def add_verbs(verbs: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Add both verbs."""
    parser = add_verb(verbs, "explain-log")
    parser.add_argument(
        "file",
        nargs="+",
        help="logs or Flight Recorder dumps of one or more ranks (also gz, bz2, xz, zip), a directory, or - for stdin",
    )
    parser.add_argument(
        "--data-ports",
        metavar="A-B",
        default="",
        help="data port range of the cluster, to judge the ports in the logs",
    )
    parser.add_argument("--json", action="store_true", help="print the findings as JSON")
    parser.add_argument(
        "--html",
        metavar="FILE",
        default="",
        help="write a page: the findings, the lines around them, and the timeline of each log",
    )
    parser.add_argument(
        "--deadline",
        metavar="SECONDS",
        type=float,
        default=DEADLINE,
        help=f"time for reading (default {DEADLINE:g})",
    )
    parser.set_defaults(func=run_explain_log)
    parser = add_verb(verbs, "explain")
    parser.add_argument(
        "code", nargs="?", help="such as LG-102, VC-202 or PF-110 (default: list all codes)"
    )
    parser.add_argument("--json", action="store_true", help="print codes and pages as JSON")
    parser.set_defaults(func=run_explain)


def print_explain_error(code: str, text: str) -> int:
    """Report a usage error."""
    print_error(f"fullmesh: [{code}] {clean_and_shorten(text, 1000)}")
    return USAGE


def run_explain(args: argparse.Namespace) -> int:
    """``fullmesh explain CODE``."""
    code = str(args.code or "").strip().strip("[]").upper()
    if cause := load_cause(code):  # without loading all other codes
        return print_code_page(args, code, cause.page.meaning, explain_cause(cause))
    from fullmesh import codes  # noqa: PLC0415 (codes imports the command line, which imports this)
    from fullmesh.explain import pages  # noqa: PLC0415 (slow to import, and explain-log needs none)

    known = codes.collect_codes()
    if args.code is None:
        if args.json:
            print_text(json.dumps(known, indent=2))
            return OK
        print_text("\n".join(f"{code}  {meaning}" for code, meaning in known.items()))
        return OK
    if code not in known:
        maybe = ", ".join(pages.find_similar_codes(code, list(known)))
        return print_explain_error(
            "CL-109",
            f"There is no code {args.code!r}. Near it: {maybe}. Check: ./fullmesh explain",
        )
    page = pages.explain_code(code, known[code], codes.OWNERS)
    return print_code_page(args, code, known[code], page)


def print_code_page(args: argparse.Namespace, code: str, meaning: str, page: str) -> int:
    """Print the page of a code, for people or as JSON."""
    text = page.rstrip("\n")
    if args.json:
        text = json.dumps({"code": code, "meaning": meaning, "page": text}, indent=2)
    print_text(text)
    return OK


def _parse_data_ports(text: str) -> PortRange | None:
    return parse_range(text) if text else None


@dataclass(frozen=True)
class UnreadLog:
    """A file that could not be read or is not a log."""

    name: str
    code: str
    reason: str


@dataclass
class ReadLogs:
    """All logs."""

    tally: Tally
    records: RankRecords | None = None
    logs: list[Log] = field(default_factory=list)
    unread: list[UnreadLog] = field(default_factory=list)

    def read_log(self, name: str, source: Source, deadline: float) -> None:
        """Read one log, or report why it cannot be read."""
        log = Log(clean_and_shorten(name))
        try:
            for block in read_log_blocks(log, source, deadline, self.take_record):
                self.tally.take(log.name, block)
        except RefusedRecordError as exc:
            self._refuse(name, exc.code, f"{name} begins as a rank's record: {exc}")
        except UnreadableLogError as exc:
            self._refuse(name, exc.code, f"cannot read {name}: {exc}")
        except (OSError, ValueError) as exc:
            reason = getattr(exc, "strerror", None) or exc
            fix = "Fix: name a file, a directory or -"
            self._refuse(name, "CL-110", f"Cannot read {name}: {reason}. {fix}")
        else:
            self.logs.append(log)

    def take_record(self, name: str, data: bytes) -> str:
        """Store a rank's record, and return a note about it."""
        from fullmesh.explain.records import RankRecords  # noqa: PLC0415 (slow to import, and seldom needed)

        self.records = self.records or RankRecords()
        return self.records.take(name, data)

    def _refuse(self, name: str, code: str, reason: str) -> None:
        self.unread.append(
            UnreadLog(clean_and_shorten(name), code, clean_and_shorten(reason, 1000))
        )
        print_explain_error(code, f"{reason.removesuffix('.')}.")

    @property
    def is_complete(self) -> bool:
        """Return whether there were logs, and all were read to their ends."""
        has_text = any(log.size for log in self.logs)
        return has_text and not self.unread and all(log.is_complete for log in self.logs)


def run_explain_log(args: argparse.Namespace) -> int:
    """``fullmesh explain-log FILE...``."""
    try:
        options = ExplainOptions(_parse_data_ports(args.data_ports))
    except ValueError as exc:
        return print_explain_error("CL-111", f"--data-ports: {exc}")
    if not args.deadline > 0:  # also not a number
        return print_explain_error(
            "CL-124", f"--deadline is {args.deadline:g}. Fix: name a number of seconds above 0."
        )
    done = ReadLogs(Tally(options))
    deadline = time.monotonic() + min(args.deadline, LONGEST)
    for name, source in list_log_sources(args.file, STARTED_IN):
        done.read_log(name, source, deadline)
    verdict = judge_logs(done.tally)
    found = done.records.findings() if done.records else []
    verdict.overview.recorded = frozenset(done.records.ranks if done.records else ())
    show = verdict_to_json if args.json else render_verdict
    print_text(show(verdict, done.logs, found, done.unread).rstrip("\n"))
    if args.html:
        try:
            write_log_page(args, verdict_to_data(verdict, done.logs, found, done.unread), deadline)
        except OSError as exc:
            return print_explain_error(
                "HG-185", f"The page cannot be written to {args.html}: {exc.strerror}"
            )
    if verdict.bad or any(one.severity == Severity.CAUSE for one in found):
        return PROBLEM
    return OK if done.is_complete else USAGE


def write_log_page(args: argparse.Namespace, data: dict[str, Any], deadline: float) -> None:
    """Write the page. Read the files once more for the lines around the evidence."""
    from fullmesh.report.logs import LineContext, render_log_report  # noqa: PLC0415 (slow to import, and seldom needed)

    context = LineContext(data["findings"])
    for name, source in list_log_sources([name for name in args.file if name != "-"], STARTED_IN):
        log = Log(clean_and_shorten(name))
        if log.name in context.wanted:
            with contextlib.suppress(RefusedRecordError, UnreadableLogError, OSError, ValueError):
                for block in read_log_blocks(log, source, deadline, lambda _name, _data: ""):
                    context.take(log.name, block)
    (STARTED_IN / args.html).write_text(render_log_report(data, context), "utf-8")


def verdict_to_json(
    verdict: LogVerdict,
    logs: list[Log],
    found: Sequence[RecordFinding] = (),
    unread: Sequence[UnreadLog] = (),
) -> str:
    """Return the verdict for programs as JSON."""
    data = verdict_to_data(verdict, logs, found, unread)
    return json.dumps(data, indent=2, ensure_ascii=True) + "\n"


def verdict_to_data(
    verdict: LogVerdict,
    logs: list[Log],
    found: Sequence[RecordFinding] = (),
    unread: Sequence[UnreadLog] = (),
) -> dict[str, Any]:
    """Return the verdict for programs, with the findings of the ranks' records first."""
    return {
        "schema": SCHEMA,
        "findings": [
            *(one.as_dict() for one in found),
            *(_log_finding_to_data(head) for head in verdict.heads),
        ],
        "harmless": [_log_finding_to_data(finding) for finding in verdict.harmless],
        "logs": [
            {"name": log.name, "bytes": log.size, "note": log.note, "complete": log.is_complete}
            for log in logs
        ],
        "unread": [asdict(one) for one in unread],
        "read": verdict.overview.as_dict(),
    }


def _log_finding_to_data(finding: LogFinding) -> dict[str, Any]:
    return {
        "code": finding.code,
        "severity": str(finding.severity),
        "cause": finding.sentence,
        "where": finding.where,
        "evidence": [
            {"file": e.file, "line": e.line, "rank": e.rank, "text": e.text}
            for e in finding.evidence
        ],
        "count": finding.count,
        "prove": finding.prove,
        "fix": finding.fix,
        "page": format_page_link(finding.code),
        "follows": [_log_finding_to_data(child) for child in finding.follows],
    }


def render_verdict(
    verdict: LogVerdict,
    logs: list[Log],
    found: Sequence[RecordFinding] = (),
    unread: Sequence[UnreadLog] = (),
) -> str:
    """Render the verdict as text."""
    lines: list[str] = []
    for number, one in enumerate(found, 1):
        lines += [*one.as_lines(number), ""]
    has_unknown = any(head.severity == Severity.UNKNOWN for head in verdict.heads)
    for number, head in enumerate(verdict.heads, len(found) + 1):
        lines += [
            *_render_log_finding(number, head, _describe_symptom(head, has_unknown=has_unknown)),
            "",
        ]
    if verdict.harmless:
        lines.append("Harmless, not the cause:")
        lines += [f"  [{f.code}] {f.sentence} ({_format_occurrence(f)})" for f in verdict.harmless]
        lines.append("")
    lines += [f"Note: {log.name}: {log.note}." for log in logs if log.note]
    if len(logs) >= MOST_FILES:
        lines.append(f"Note: only the first {MOST_FILES} files were read.")
    lines.append(_describe_outcome(verdict, logs, found, unread))
    return "\n".join([*lines, *_describe_read(verdict, logs, found)]) + "\n"


def _describe_read(
    verdict: LogVerdict, logs: list[Log], found: Sequence[RecordFinding]
) -> list[str]:
    """Return what was read, if nothing was found, and what to collect, if no cause was found."""
    if not sum(log.size for log in logs):
        return []
    severities = {*(one.severity for one in verdict.heads), *(one.severity for one in found)}
    if Severity.CAUSE in severities:
        return []
    shown = [] if verdict.heads or found else verdict.overview.as_lines()
    steps = verdict.overview.list_next_steps()
    defects = verdict.overview.list_defects()
    differences = verdict.overview.list_differences()
    return [
        *(format_label(label, text) for label, text in shown),
        *(format_label("" if index else "differ", text) for index, text in enumerate(differences)),
        *(format_label("" if index else "suspect", text) for index, text in enumerate(defects)),
        *(format_label("" if index else "collect", step) for index, step in enumerate(steps)),
    ]


def _describe_symptom(head: LogFinding, *, has_unknown: bool) -> str:
    """Return the remark about a finding's severity."""
    if head.severity != Severity.SYMPTOM:
        return ""
    if has_unknown:
        return " (a symptom, see also the error lines of LG-701 below)"
    return " (a symptom whose cause is not in these logs)"


def _render_log_finding(number: int, head: LogFinding, mark: str) -> list[str]:
    lines = [f"{number}. [{head.code}] {head.sentence}{mark}"]
    lines += [format_label("where", head.where)] if head.where else []
    for index, evidence in enumerate(head.evidence):
        rank = f" (rank {evidence.rank})" if evidence.rank else ""
        text = f"{evidence.file}:{evidence.line}{rank}: {evidence.text}"
        lines.append(format_label("" if index else "seen", text))
    if head.count > len(head.evidence):
        least = "at least " if head.capped else ""
        lines.append(
            format_label("", f"and {least}{head.count - len(head.evidence)} more like these")
        )
    lines += [
        format_label("check", head.prove),
        format_label("fix", head.fix),
        format_label("page", f"./fullmesh explain {head.code}"),
    ]
    lines += [
        format_label(
            "follows", f"[{one.code}] {one.cause.page.meaning} ({_format_occurrence(one)})"
        )
        for one in head.follows
    ]
    return lines


def _format_occurrence(finding: LogFinding) -> str:
    first = finding.evidence[0]
    times = f", {finding.count} times" if finding.count > 1 else ""
    return f"{first.file}:{first.line}{times}"


def _format_count(number: int, word: str) -> str:
    return f"{number} {word}{'s' if number != 1 else ''}"


def _describe_outcome(
    verdict: LogVerdict,
    logs: list[Log],
    found: Sequence[RecordFinding],
    unread: Sequence[UnreadLog],
) -> str:
    size = sum(log.size for log in logs)
    read_text = f"{_format_count(len(logs), 'log')} read, {size} bytes"
    if not verdict.heads and not found:
        if not size:
            return "No log could be read, so nothing is known about the job."
        if unread or not all(log.is_complete for log in logs):
            return f"{read_text}, but not completely: that part has no error, which proves nothing about the rest."
        return (
            f"{read_text}: nothing wrong found, these logs contain no error. A hang often leaves no line:"
            " ./fullmesh verify -i INVENTORY tests the nodes."
        )
    symptoms = sum(head.severity == Severity.SYMPTOM for head in verdict.heads)
    causes = sum(head.severity == Severity.CAUSE for head in verdict.heads)
    causes += sum(one.severity == Severity.CAUSE for one in found)
    parts = [_format_count(causes, "cause")]
    parts += [f"{_format_count(symptoms, 'symptom')} without a cause"] if symptoms else []
    unknown = sum(head.count for head in verdict.heads if head.severity == Severity.UNKNOWN)
    parts += [f"{_format_count(unknown, 'error line')} that no rule knows"] if unknown else []
    return f"{read_text}: {', '.join(parts)}. ./fullmesh explain CODE prints a page."
