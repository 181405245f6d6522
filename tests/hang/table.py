"""Write the table of a run: job, found, seconds."""

from __future__ import annotations

import json
import os
import platform
from datetime import UTC, datetime
from statistics import median
from typing import Any

from causes.cases import JOB_FAULTS
from causes.job_faults import HEALTHY_JOBS, MANY, JobFault

from .bench import WORK, Answer

ROWS = WORK / "rows"
HEAD = """\
# Hung and healthy jobs, and their findings

Written by `pytest tests/hang` on {day}. Each row is a real job (torch 2.13, Gloo) on two lab nodes
(look-alikes of CentOS Stream 9 and Ubuntu 24.04, see docs/development/lab.md) with their firewall. An account without
privileges starts it with `fullmesh-torchrun`. The test then breaks it and runs `./fullmesh hang`. *Found* means that
this code was the first finding, that there was no other cause, and that the ranks, the file and the line were right
(no line if none can be known). *Seconds* is the time from the command to its output, 3 s of it between the samples, on
{cores} shared cores (load average {load:.0f} at the end). Kernel {kernel}.
"""


def save_row(fault: JobFault, answer: Answer, wrong: str) -> None:
    """Save a row."""
    ROWS.mkdir(parents=True, exist_ok=True)
    row = {"found": not wrong, "seconds": answer.seconds, "wrong": wrong, "said": answer.findings}
    (ROWS / f"{fault.name}.json").write_text(json.dumps(row))


def format_row(*cells: object) -> str:
    """Format a table row."""
    return "| " + " | ".join(str(cell) for cell in cells) + " |"


def format_page() -> str:
    """Format the page."""
    saved: dict[str, dict[str, Any]] = {
        path.stem: json.loads(path.read_text()) for path in ROWS.glob("*.json")
    }
    jobs = [*JOB_FAULTS, MANY, *HEALTHY_JOBS]
    lines = [
        format_row("job", "what was done", "ranks", "code", "rank", "line", "found", "seconds"),
        "|---|---|---|---|---|---|---|---|",
    ]
    for fault in jobs:
        row = saved.get(fault.name)
        found = "not run" if row is None else "yes" if row["found"] else "NO"
        codes = ", ".join((fault.code, *fault.also))
        ranks = ", ".join(map(str, fault.ranks))
        marked_line = f"`{fault.line.rpartition('|')[2]}`" if fault.line else ""
        seconds = f"{row['seconds']:.1f}" if row else ""
        lines.append(
            format_row(
                fault.name, fault.what, 2 * fault.each, codes, ranks, marked_line, found, seconds
            )
        )
    all_seconds = sorted(float(row["seconds"]) for row in saved.values())
    found_count = sum(bool(row["found"]) for row in saved.values())
    figures = f"Found: {found_count} of {len(saved)} made."
    if all_seconds:
        figures += f" Median {median(all_seconds):.1f} s, longest {all_seconds[-1]:.1f} s."
    head = HEAD.format(
        day=f"{datetime.now(UTC):%Y-%m-%d}",
        cores=os.cpu_count(),
        load=os.getloadavg()[0],
        kernel=platform.release(),
    )
    return "\n".join([head, figures, "", *lines, ""])


def write_table() -> None:
    """Write the table."""
    if any(ROWS.glob("*.json")):
        (WORK / "hang.md").write_text(format_page())
