"""A result on the terminal: verdict, ladder, findings. Plain text where it is not a terminal."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TextIO

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from fullmesh import result as results

OK, PROBLEM, USAGE = 0, 1, 2
COLOURS = {"passed": "green", "failed": "bold red", "skipped": "yellow", "not_run": "dim"}
SEVERITIES = {"error": "bold red", "warning": "yellow"}
PLAIN_WIDTH = 120
EVIDENCE = (
    ("link", "direction"),
    ("port", "port"),
    ("seen", "seen"),
    ("expected", "expected"),
    ("fix", "fix"),
)


def evidence(finding: Mapping[str, str]) -> list[str]:
    """The lines below a finding's cause."""
    return [f"{label:<9}{finding[key]}" for label, key in EVIDENCE if finding[key]]


def headline(result: Mapping[str, Any]) -> str:
    """The verdict in one line."""
    plan = result["plan"]
    size = f"{len(plan['nodes'])} nodes, {plan['world_size']} ranks, {result['seconds']:.1f} s"
    if result["check_mode"]:
        held = sum(rung["status"] == "passed" for rung in result["rungs"])
        return f"CHECK MODE: {held} of {len(result['rungs'])} rungs hold already: {size}"
    if result["verdict"] == "ok":
        unsure = [r["id"] for r in result["rungs"] if r["status"] in ("skipped", "not_run")]
        rest = f" (not climbed: {', '.join(unsure)})" if unsure else ""
        return f"OK: {size}{rest}"
    return f"FAILED at {', '.join(result['failed_rungs'])}: {size}"


def finding_lines(finding: Mapping[str, str]) -> list[str]:
    """A finding as text."""
    return [f"[{finding['code']}] {finding['cause']}.", *(f"    {x}" for x in evidence(finding))]


def loud_notes(result: Mapping[str, Any]) -> list[str]:
    """What must not be overlooked: the firewall, the lab, what roles left to say, what was not tested."""
    found = []
    if result["firewall_mode"] == "off":
        found.append("THE FIREWALL IS OFF on the nodes: this result says nothing about one.")
    if result["check_mode"]:
        found.append("Check mode: nothing was configured, so nothing was demanded.")
    if result["lab"]:
        found.append(result["lab"])
    by_text: dict[str, list[str]] = {}
    for note in result["notes"]:
        by_text.setdefault(f"[{note['code']}] {note['text']}", []).append(note["node"])
    found += [f"{text} ({', '.join(nodes)})" for text, nodes in by_text.items()]
    for rung in result["rungs"]:
        found += [f"{rung['id']}: {text}" for text in rung["details"].get("notes", [])]
    return found


def summary_lines(result: Mapping[str, Any]) -> list[str]:
    """The whole summary without any decoration; Ansible shows this."""
    lines = [headline(result)]
    lines += [
        f"{r['id']} {r['status']:<8} {r['seconds']:>6.1f} s  {r['name']}"
        + (f": {r['reason']}" if r["reason"] else "")
        for r in result["rungs"]
    ]
    lines += [f"note: {text}" for text in loud_notes(result)]
    for finding in result["findings"]:
        lines += finding_lines(finding)
    return lines


def failure(result: Mapping[str, Any]) -> str:
    """Name the failed rungs and every cause, a line each."""
    names = [f"{r['id']} ({r['name']})" for r in result["rungs"] if r["status"] == "failed"]
    causes = [f"[{f['code']}] {f['cause']}. {f['fix']}" for f in result["findings"]]
    return "\n".join([f"failed: {', '.join(names)}", *causes])


def ladder(result: Mapping[str, Any]) -> Table:
    """The rungs as a table."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    for name in ("rung", "what", "status"):
        table.add_column(name)
    table.add_column("seconds", justify="right")
    table.add_column("remark", overflow="fold")
    for rung in result["rungs"]:
        colour = COLOURS[rung["status"]]
        table.add_row(
            rung["id"],
            rung["name"],
            f"[{colour}]{rung['status'].replace('_', ' ')}[/]",
            f"{rung['seconds']:.1f}",
            escape(rung["reason"]),
        )
    return table


def figures(result: Mapping[str, Any]) -> list[str]:
    """Links and collectives in a line each."""
    lines = []
    links = result["links"]
    if links:
        good = [link for link in links if link["verdict"] == "open"]
        slowest = max((link["rtt_ms"] or 0.0 for link in good), default=0.0)
        lines.append(f"links: {len(good)} of {len(links)} open, slowest round trip {slowest:g} ms")
    rates = result["collectives"]
    if rates.get("bus_gbit_s"):
        lines.append(
            f"all_reduce: {rates['bus_gbit_s']:g} Gbit/s bus bandwidth at {rates['bandwidth_mib']} MiB, "
            f"{rates['latency_us']:g} µs for the smallest"
        )
    return lines


def draw(result: Mapping[str, Any], console: Console) -> None:
    """Print everything."""
    colour = "bold green" if result["verdict"] == "ok" else "bold red"
    console.print(f"[{colour}]{escape(headline(result))}[/]")
    for text in loud_notes(result):
        console.print(f"[bold yellow]note:[/] {escape(text)}")
    console.print(ladder(result))
    for text in figures(result):
        console.print(escape(text))
    for finding in result["findings"]:
        first, *rest = finding_lines(finding)
        console.print(f"[{SEVERITIES[finding['severity']]}]{escape(first)}[/]")
        for line in rest:
            console.print(escape(line), highlight=False, soft_wrap=True)


def make_console(stream: TextIO) -> Console:
    """Colours and the window's width on a terminal, plain text of a fixed width elsewhere."""
    if stream.isatty():
        return Console(file=stream)
    return Console(file=stream, force_terminal=False, no_color=True, width=PLAIN_WIDTH)


def print_summary(path: Path | str, stream: TextIO | None = None) -> int:
    """Print the result at *path*; returns 0 when all is well, 1 for a problem, 2 when it cannot be read."""
    try:
        result = results.load(Path(path))
    except ValueError as error:
        sys.stderr.write(f"fullmesh: {error}\n")
        return USAGE
    draw(result, make_console(stream or sys.stdout))
    return OK if result["verdict"] == "ok" else PROBLEM
