"""The table cause x found x seconds, which a run writes."""

from __future__ import annotations

import json
import os
import platform
from datetime import UTC, datetime
from typing import Any

from causes.cases import FAULTS

from fullmesh.causes.engine import LAB, Cause, CauseCase, index_cases

from .bench import WORK

ROWS_FOLDER = WORK / "rows"
TABLE = WORK / "faults.md"
HEAD = """\
# Faults that diagnosis was tried on

Written by `pytest tests/faults`, on {day}. Every cause that containers, namespaces, nft,
tc or files can make (`src/fullmesh/causes`) was made on lab nodes (look-alikes of CentOS Stream 9 and
Ubuntu 24.04, see docs/development/lab.md), one at a time, and `diagnose` ran. *Found* says that exactly this code was
the one primary finding, with the right node, peer, direction and port; a diagnosis after {every} repair had to be
silent. *Seconds* is from the command to the answer, on {cores} cores that two labs and others shared (load average
{load:.0f} at the end). *tuned* nodes were configured by `site.yml`; *bare* nodes have addresses, typed in, and nothing
of Fullmesh.
"""
TAIL = """\
A container has no GPU, no RDMA device, no kernel's log and no clock of its own: GPUs were the lab's stand-in below the
real nvidia-smi, on nodes that pass for machines; their PCI tree and kernel's log, RDMA devices and the clock
were files. Causes that not even files can make (SELinux, the kernel's tables) are tested from recorded observations, in
`tests/unit`; they stand in the table as *recorded*.
"""


def begin() -> None:
    """Forget the rows of earlier runs."""
    ROWS_FOLDER.mkdir(parents=True, exist_ok=True)
    for old in ROWS_FOLDER.glob("*.json"):
        old.unlink()


def row(name: str, **fields: Any) -> None:
    """Keep one row; every worker writes files of its own."""
    ROWS_FOLDER.mkdir(parents=True, exist_ok=True)
    (ROWS_FOLDER / f"{name}-{os.getpid()}.json").write_text(json.dumps(dict(fields, name=name)))


def rows() -> dict[str, dict[str, Any]]:
    """All rows by their names, the newest of each."""
    paths = sorted(ROWS_FOLDER.glob("*.json"), key=lambda path: path.stat().st_mtime)
    found = [json.loads(path.read_text()) for path in paths]
    return {one["name"]: one for one in found}


def line(*cells: object) -> str:
    """One line of a table."""
    return "| " + " | ".join(str(cell) for cell in cells) + " |"


def case_lines(cause: Cause, case: CauseCase, held: dict[str, dict[str, Any]]) -> list[str]:
    """The lines of one case: one for each fault that makes it."""
    made = [fault for fault in FAULTS if fault.case == case.name]
    if not made:
        word = "recorded" if case.by != LAB else "NOT MADE"
        return [line(cause.code, cause.page.meaning, case.name, "", "", word, "")]
    lines = []
    for fault in made:
        one = held.get(f"{fault.lab}-{fault.name}")
        word = "not run" if one is None else "yes" if one["found"] else "NO"
        seconds = f"{one['seconds']:.1f}" if one else ""
        cells = (fault.name, fault.lab, fault.code, word, seconds)
        lines.append(line(cause.code, cause.page.meaning, *cells))
    return lines


def text(every: int) -> str:
    """The whole page."""
    held = rows()
    lines = [
        line("code", "cause", "case", "nodes", "other code", "found", "seconds"),
        "|---|---|---|---|---|---|---|",
    ]
    for cause, case in index_cases().values():
        lines += case_lines(cause, case, held)
    took = sorted(float(one["seconds"]) for one in held.values() if "found" in one)
    good = sum(bool(one["found"]) for one in held.values() if "found" in one)
    figures = [f"Found: {good} of {len(took)} faults made"]
    if took:
        figures.append(f"median {took[len(took) // 2]:.1f} s, longest {took[-1]:.1f} s")
    figures += [one["said"] for name, one in sorted(held.items()) if "said" in one]
    head = HEAD.format(
        day=f"{datetime.now(UTC):%Y-%m-%d}",
        cores=os.cpu_count(),
        load=os.getloadavg()[0],
        every="every" if every == 1 else f"every {every}th",
    )
    kernel = f"Kernel {platform.release()}."
    return "\n".join([head, ". ".join([*figures, kernel]), "", *lines, "", TAIL])


def finish(*, every: int) -> None:
    """Write the table."""
    if rows():
        TABLE.write_text(text(every))
