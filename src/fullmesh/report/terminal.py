"""Show a result on the terminal: verdict, checks, matrix, findings. Plain text if the output is not a terminal."""

from __future__ import annotations

import sys
import textwrap
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TextIO

from rich.console import Console
from rich.markup import escape
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

from fullmesh.printed import print_error, wrap_text
from fullmesh.report import blocks, model, rails
from fullmesh.report.model import format_headline, list_loud_notes, scrub_texts
from fullmesh.report.view import MatrixCell
from fullmesh.result import read
from fullmesh.result.types import BisectRun, FindingRow, LinkRow, Result
from fullmesh.verify import bisected

OK, PROBLEM, USAGE = 0, 1, 2
COLOURS = {"passed": "green", "failed": "bold red", "skipped": "yellow", "not_run": "dim"}
SEVERITIES = {"error": "bold red", "warning": "yellow"}
PLAIN_WIDTH = 120
LEAST_REMARK = 34  # columns of a remark next to its check. With fewer columns, it goes below.
UNBOUNDED = 9999  # columns
INDENT = 6  # of a remark below its check
NOTE = len("note: ")
MATRIX_NODES = 8  # a wider matrix does not fit 80 columns, but report.html has it


def format_finding_lines(finding: FindingRow) -> list[str]:
    """Format a finding with the findings that follow from it."""
    lines = [model.format_finding(finding)]
    lines += [f"    {label:<9}{value}" for label, value in model.list_evidence(finding)]
    return lines + [
        f"    follows  {model.format_finding(child)}" for child in finding.get("follows", [])
    ]


def format_summary(result: Result) -> list[str]:
    """Format the whole summary without decoration, for Ansible's output."""
    result = scrub_texts(result)
    lines = [format_headline(result)]
    lines += [
        f"{r['id']} {r['status']:<8} {r['seconds']:>6.1f} s  {r['name']}"
        + (f": {r['reason']}" if r["reason"] else "")
        for r in result["rungs"]
    ]
    lines += [f"note: {text}" for text in list_loud_notes(result)]
    for finding in result["findings"]:
        lines += format_finding_lines(finding)
    return lines


def describe_failure(result: Result) -> str:
    """Describe the failed checks and every cause, one line each."""
    result = scrub_texts(result)
    names = [f"{r['id']} ({r['name']})" for r in result["rungs"] if r["status"] == "failed"]
    causes = [f"{model.format_finding(f)} {f['fix']}" for f in result["findings"]]
    return "\n".join([f"failed: {', '.join(names)}", *causes])


def shorten_text(text: str, length: int) -> str:
    """Shorten a text and mark the cut."""
    return text if len(text) <= length else text[: max(0, length - 1)] + "…"


def render_checks(result: Result, columns: int, *, brief: bool = False) -> list[Text]:
    """Render the checks as a table of *columns*, with each name on one line. *brief* cuts remarks too."""
    checks = result["rungs"]
    name = max(len("check"), *(len(check["name"]) for check in checks))
    status = max(len(check["status"]) for check in checks)
    timed = 6 + name + 2 + status + 2 + 7 <= columns
    left = 6 + name + 2 + status + (2 + 7 if timed else 0) + 2
    behind = brief or columns - left >= LEAST_REMARK
    head = f"id    {'check':<{name}}  {'status':<{status}}" + ("  seconds" if timed else "")
    remarks = any(check["reason"] for check in checks) and behind and columns > left + len("remark")
    lines = [Text(head + ("  remark" if remarks else ""), "bold")]
    for check in checks:
        word = check["status"].replace("_", " ")
        line = Text(f"{check['id']:<4}  {check['name']:<{name}}  ")
        line.append(f"{word:<{status}}", COLOURS[check["status"]])
        line.append(f"  {check['seconds']:>7.1f}" if timed else "")
        start = left if behind else INDENT
        if brief:
            more = [shorten_text(check["reason"], max(0, columns - left))]
        else:
            more = textwrap.wrap(check["reason"], max(columns - start, LEAST_REMARK))
        if behind and more and more[0]:
            line.append(f"  {more.pop(0)}")
        lines += [line, *(Text(" " * start + text) for text in more if text)]
    return lines


def format_link_cell(link: LinkRow | None) -> str:
    """Format one link of the matrix: its letter and round trip, or its problem."""
    if link is None:
        return "[dim]?[/]"
    if link["verdict"] != model.OPEN:
        return f"[bold red]{escape(link['verdict'].replace('_', ' '))}[/]"
    parts = [] if link["rtt_ms"] is None else [f"{link['rtt_ms']:g} ms"]
    if (rate := model.get_link_rate(link)) is not None:
        parts.append(f"{rate:.3g} Gbit/s")
    return " ".join(parts) or "open"


def build_link_table(result: Result) -> Table | None:
    """Build a table of every ordered pair. Return None if nothing was tested or there are many nodes."""
    links = model.index_links(result)
    nodes = list(result["plan"].get("nodes") or result["nodes"])
    if not links or len(nodes) > MATRIX_NODES:
        return None
    rows = [
        (
            source,
            [
                "-" if target == source else format_link_cell(links.get((source, target)))
                for target in nodes
            ],
        )
        for source in nodes
    ]
    return build_node_table(nodes, rows)


def build_node_table(nodes: Sequence[str], rows: Iterable[tuple[str, Sequence[str]]]) -> Table:
    """Build a table with a column for each node, and a row for each source."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("from \\ to", style="bold")
    for name in nodes:
        table.add_column(escape(name), justify="right")
    for source, cells in rows:
        table.add_row(escape(source), *cells)
    return table


def format_rail_cell(cell: MatrixCell | None) -> str:
    """Format the tries between two nodes on a rail: the code of the cause in red, if they failed."""
    if cell is None:
        return "-"
    if cell.kind == rails.FAILED_KIND:
        return f"[bold red]{escape(cell.lines[0])}[/]"
    if cell.kind == model.UNKNOWN:
        return f"[dim]{escape(cell.word)}[/]"
    return escape(cell.lines[0] if cell.lines else cell.word)


def print_node_table(console: Console, table: Table) -> None:
    """Print a table if it fits the terminal."""
    unbounded = console.options.update(max_width=UNBOUNDED)
    if Measurement.get(console, unbounded, table).minimum <= console.width:
        console.print(table)
    else:
        console.print("The table of links is wider than this terminal: see report.html.")


def print_rails(result: Result, console: Console) -> None:
    """Print a line for rails with the same outcome, and their matrix if something failed."""
    for one in rails.build_rail_matrices(result):
        console.print(escape(one.describe()))
        if one.wanted and len(one.nodes) <= MATRIX_NODES:
            rows = [
                (source, [format_rail_cell(cell) for cell in cells]) for source, cells in one.rows
            ]
            print_node_table(console, build_node_table(one.nodes, rows))


def describe_figures(result: Result) -> list[str]:
    """Describe links and collectives, one line each."""
    lines = []
    links = result["links"]
    good, tried, pairs = blocks.count_links(result)
    if tried:
        held = [link["rtt_ms"] or 0.0 for link in links if link["verdict"] == model.OPEN]
        mesh = blocks.get_block_mesh(result)
        held += [node["rtt_us"] / 1000 for node in mesh["by_node"].values()] if mesh else []
        of = f" ({pairs} in total)" if tried < pairs else ""
        slowest = max(held, default=0.0)
        lines.append(f"links: {good} of {tried} open{of}, slowest round trip {slowest:g} ms")
    rates = result["collectives"]
    if rates.get("bus_gbit_s"):
        lines.append(
            f"all_reduce: {rates['bus_gbit_s']:g} Gbit/s bus bandwidth at {rates['bandwidth_mib']} MiB, "
            f"{rates['latency_us']:g} µs for the smallest"
        )
    return [
        *lines,
        *(f"bisect: {bisected.format_bisect_run(n, run)}" for n, run in number_bisect_runs(result)),
    ]


def number_bisect_runs(result: Result) -> Iterator[tuple[int, BisectRun]]:
    """Yield the runs of --bisect with their numbers."""
    return enumerate(result.get("bisect", []), 1)


def print_result(raw: Result, console: Console, *, brief: bool = False) -> None:
    """Print everything. *brief* prints one line per remark and the first note only. The report has the rest."""
    result = scrub_texts(raw)
    colour = "bold green" if result["verdict"] == "ok" else "bold red"
    console.print(f"[{colour}]{escape(format_headline(result))}[/]")
    notes = list_loud_notes(result)
    for text in notes[:1] if brief else notes:
        lines = [text] if brief else wrap_text(text, console.width - NOTE, more="")
        shown = console.render_str(f"[bold yellow]note:[/] {escape(lines[0])}")
        console.print(shown, no_wrap=True, overflow="ellipsis" if brief else "ignore", crop=brief)
        for line in lines[1:]:
            console.print(f"{' ' * NOTE}{escape(line)}", soft_wrap=True)
    if brief and notes[1:]:
        console.print(f"[bold yellow]note:[/] {len(notes) - 1} more in the report")
    if result["rungs"]:
        for shown in render_checks(result, console.width, brief=brief):
            console.print(shown, no_wrap=True, overflow="ignore", crop=False)
    table = build_link_table(result)
    if table is not None:
        print_node_table(console, table)
    print_rails(result, console)
    for text in describe_figures(result):
        console.print(escape(text))
    for row in result.get("not_looked_at", []):
        console.print(escape(f"not checked: {row['node']}: {row['what']}: {row['why']}"))
    for finding in result["findings"]:
        first, *rest = format_finding_lines(finding)
        for line in wrap_text(first, console.width, more="    "):
            console.print(f"[{SEVERITIES[finding['severity']]}]{escape(line)}[/]", soft_wrap=True)
        for line in rest:
            console.print(escape(line), highlight=False, soft_wrap=True)


def make_console(stream: TextIO) -> Console:
    """Create a console: color and the window's width on a terminal, plain text of a fixed width elsewhere."""
    if stream.isatty():
        return Console(file=stream)
    return Console(file=stream, force_terminal=False, no_color=True, width=PLAIN_WIDTH)


def print_summary(path: Path | str, stream: TextIO | None = None, *, brief: bool = False) -> int:
    """Print the result at *path*. Return 0 if all is well, 1 for a problem, 2 if it cannot be read."""
    try:
        result = read.load_result(Path(path))
    except ValueError as error:
        print_error(f"fullmesh: {error}")
        return USAGE
    print_result(result, make_console(stream or sys.stdout), brief=brief)
    return OK if result["verdict"] == "ok" else PROBLEM
