"""The table fault x found x seconds, which a run writes."""

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
# Jobs that stand, and what was said of them

Written by `pytest tests/hang`, on {day}. Each row is a real job (torch 2.13, Gloo) over two lab nodes
(look-alikes of CentOS Stream 9 and Ubuntu 24.04, see docs/development/lab.md) with the firewall on, started there by an
account without rights through `fullmesh-torchrun`. Then it was broken, and `./fullmesh hang` was asked. *Found* says
that this code was the first finding and no other cause stood beside it, with the right ranks and the right file and
line, or with no line where none can be known. *Seconds* is from the command to the answer, three of them between its
looks, on {cores} cores that others used as well (load average {load:.0f} at the end). Kernel {kernel}.
"""


def keep(fault: JobFault, answer: Answer, wrong: str) -> None:
    """Remember a row."""
    ROWS.mkdir(parents=True, exist_ok=True)
    row = {"found": not wrong, "seconds": answer.seconds, "wrong": wrong, "said": answer.findings}
    (ROWS / f"{fault.name}.json").write_text(json.dumps(row))


def line(*cells: object) -> str:
    """One line of a table."""
    return "| " + " | ".join(str(cell) for cell in cells) + " |"


def text() -> str:
    """The whole page."""
    held: dict[str, dict[str, Any]] = {
        path.stem: json.loads(path.read_text()) for path in ROWS.glob("*.json")
    }
    every = [*JOB_FAULTS, MANY, *HEALTHY_JOBS]
    lines = [
        line("job", "what was done", "ranks", "code", "rank", "line", "found", "seconds"),
        "|---|---|---|---|---|---|---|---|",
    ]
    for fault in every:
        one = held.get(fault.name)
        word = "not run" if one is None else "yes" if one["found"] else "NO"
        codes = ", ".join((fault.code, *fault.also))
        ranks = ", ".join(map(str, fault.ranks))
        named = f"`{fault.line.rpartition('|')[2]}`" if fault.line else ""
        took = f"{one['seconds']:.1f}" if one else ""
        lines.append(line(fault.name, fault.what, 2 * fault.each, codes, ranks, named, word, took))
    took_all = sorted(float(one["seconds"]) for one in held.values())
    good = sum(bool(one["found"]) for one in held.values())
    figures = f"Found: {good} of {len(held)} made."
    if took_all:
        figures += f" Median {median(took_all):.1f} s, longest {took_all[-1]:.1f} s."
    head = HEAD.format(
        day=f"{datetime.now(UTC):%Y-%m-%d}",
        cores=os.cpu_count(),
        load=os.getloadavg()[0],
        kernel=platform.release(),
    )
    return "\n".join([head, figures, "", *lines, ""])


def finish() -> None:
    """Write the table."""
    if any(ROWS.glob("*.json")):
        (WORK / "hang.md").write_text(text())
