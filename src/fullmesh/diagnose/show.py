"""Render the result of a diagnosis for a terminal."""

from __future__ import annotations

import re
from typing import Literal

from fullmesh.diagnose import compare
from fullmesh.diagnose.run import list_boot_codes
from fullmesh.printed import format_label, wrap_text
from fullmesh.result.types import FindingRow, Result

MISSED_SHOWN = 12
LINE_START = re.compile(r"\d+\. |note: |  ")
AT_BOOT = "At the next boot:"
UNLIKE = "No known cause explains it. Differences that can cause it, the likeliest first (hints, not proof):"
Told = Literal["node", "direction", "port", "seen", "expected", "check", "fix"]
TOLD: tuple[tuple[str, Told], ...] = (
    ("node", "node"),
    ("link", "direction"),
    ("port", "port"),
    ("seen", "seen"),
    ("expected", "expected"),
    ("check", "check"),
    ("fix", "fix"),
)


def format_diagnosis_headline(result: Result) -> str:
    """Render the verdict in one line."""
    nodes, links = len(result["plan"]["nodes"]), result["links"]
    good = sum(link["verdict"] == "open" for link in links)
    size = f"{nodes} nodes, {good} of {len(links)} links open, {result['seconds']:.1f} s"
    bad = sum(f["severity"] == "error" for f in result["findings"])
    mild = len(result["findings"]) - bad
    warned = f", {mild} warning{'s' if mild != 1 else ''}" if mild else ""
    if not bad:
        return f"NOTHING WRONG FOUND{warned}: {size}"
    return f"{bad} CAUSE{'S' if bad != 1 else ''}{warned}: {size}"


def format_diagnosis_finding(number: int, finding: FindingRow) -> list[str]:
    """Render a finding with its evidence, its fix and its consequences."""
    mark = " (warning)" if finding["severity"] == "warning" else ""
    lines = [f"{number}. [{finding['code']}]{mark} {finding['cause']}."]
    for label, key in TOLD:
        if finding.get(key):
            lines.append(format_label(label, str(finding[key])))
    if finding.get("page"):
        lines.append(format_label("page", f"./fullmesh explain {finding['code']}"))
    for child in finding.get("follows", []):
        lines.append(format_label("follows", f"[{child['code']}] {child['cause']}"))
    return lines


def format_unobserved(result: Result) -> list[str]:
    """List the parts that were not surveyed, one line for the same part of several nodes."""
    grouped: dict[tuple[str, str], list[str]] = {}
    for one in result.get("not_looked_at", []):
        grouped.setdefault((one["what"], one["why"]), []).append(one["node"])
    lines = [f"  {what} ({', '.join(nodes)}): {why}" for (what, why), nodes in grouped.items()]
    if not lines:
        return []
    rest = len(lines) - MISSED_SHOWN
    return [
        "Not checked:",
        *lines[:MISSED_SHOWN],
        *([f"  and {rest} more, see result.json"] if rest > 0 else []),
    ]


def format_diagnosis(result: Result, width: int = 0) -> list[str]:
    """Render the whole result as lines, wrapped to *width* columns (0: not at all), except commands to copy."""
    found = [format_diagnosis_headline(result)]
    for number, finding in enumerate(result["findings"], 1):
        if finding["code"] in list_boot_codes() and AT_BOOT not in found:
            found.append(AT_BOOT)
        found += format_diagnosis_finding(number, finding)
    for note in result["notes"]:
        if note["code"] == compare.CODE and UNLIKE not in found:
            found.append(UNLIKE)
        found.append(f"note: [{note['code']}] {note['text']}")
    if result["lab"]:
        found.append(f"note: {result['lab']}")
    found += format_unobserved(result)
    return [wrap_diagnosis_line(line, width) for line in found]


def wrap_diagnosis_line(line: str, width: int) -> str:
    """Wrap a line behind its label or number. A command stays whole, so that it can be copied."""
    commands = tuple(format_label(label, "").rstrip() for label in ("check", "fix"))
    if line.startswith(commands):
        return line
    label = len(format_label("", ""))
    number = LINE_START.match(line)
    indent = " " * (label if line.startswith("     ") else len(number[0]) if number else 2)
    return "\n".join(wrap_text(line, width, more=indent))
