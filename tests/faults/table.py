"""Write the table of a run: cause, found, seconds."""

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
# Faults that the diagnosis was tested with

Written by `pytest tests/faults` on {day}. Each cause that containers, namespaces, nft, tc or files can make
(`src/fullmesh/causes`) was made on lab nodes (look-alikes of CentOS Stream 9 and Ubuntu 24.04, see
docs/development/lab.md), one at a time, followed by `diagnose`. *Found* means that this code was the only primary
finding, with the right node, peer, direction and port, and that a diagnosis after {every} repair had no finding.
*Seconds* is the time from the command to its output, on {cores} cores that two labs and others shared (load average
{load:.0f} at the end). *tuned* nodes were configured by `site.yml`. *bare* nodes have manual addresses, and nothing of
Fullmesh.
"""
TAIL = """\
A container has no GPU, no RDMA device, no kernel log and no clock of its own. GPUs were simulated below the real
nvidia-smi, on nodes that look like machines. PCI trees, kernel logs, RDMA devices and clocks were files. Causes that
files cannot make (SELinux, the kernel's tables) are tested with recorded observations in `tests/unit`, and have the
value *recorded*.
"""


def start_table() -> None:
    """Delete the rows of earlier runs."""
    ROWS_FOLDER.mkdir(parents=True, exist_ok=True)
    for old in ROWS_FOLDER.glob("*.json"):
        old.unlink()


def save_row(name: str, **fields: Any) -> None:
    """Save one row in a file of this worker."""
    ROWS_FOLDER.mkdir(parents=True, exist_ok=True)
    (ROWS_FOLDER / f"{name}-{os.getpid()}.json").write_text(json.dumps(dict(fields, name=name)))


def load_rows() -> dict[str, dict[str, Any]]:
    """Return the newest row of each name."""
    paths = sorted(ROWS_FOLDER.glob("*.json"), key=lambda path: path.stat().st_mtime)
    found = [json.loads(path.read_text()) for path in paths]
    return {row["name"]: row for row in found}


def format_row(*cells: object) -> str:
    """Format a table row."""
    return "| " + " | ".join(str(cell) for cell in cells) + " |"


def format_case_rows(cause: Cause, case: CauseCase, saved: dict[str, dict[str, Any]]) -> list[str]:
    """Format the rows of one case, one for each fault that makes it."""
    faults = [fault for fault in FAULTS if fault.case == case.name]
    if not faults:
        result = "recorded" if case.by != LAB else "NOT MADE"
        return [format_row(cause.code, cause.page.meaning, case.name, "", "", result, "")]
    lines = []
    for fault in faults:
        row = saved.get(f"{fault.lab}-{fault.name}")
        result = "not run" if row is None else "yes" if row["found"] else "NO"
        seconds = f"{row['seconds']:.1f}" if row else ""
        cells = (fault.name, fault.lab, fault.code, result, seconds)
        lines.append(format_row(cause.code, cause.page.meaning, *cells))
    return lines


def format_page(every: int) -> str:
    """Format the page."""
    saved = load_rows()
    lines = [
        format_row("code", "cause", "case", "nodes", "other code", "found", "seconds"),
        "|---|---|---|---|---|---|---|",
    ]
    for cause, case in index_cases().values():
        lines += format_case_rows(cause, case, saved)
    seconds = sorted(float(row["seconds"]) for row in saved.values() if "found" in row)
    found_count = sum(bool(row["found"]) for row in saved.values() if "found" in row)
    figures = [f"Found: {found_count} of {len(seconds)} faults made"]
    if seconds:
        figures.append(f"median {seconds[len(seconds) // 2]:.1f} s, longest {seconds[-1]:.1f} s")
    figures += [row["said"] for name, row in sorted(saved.items()) if "said" in row]
    head = HEAD.format(
        day=f"{datetime.now(UTC):%Y-%m-%d}",
        cores=os.cpu_count(),
        load=os.getloadavg()[0],
        every="every" if every == 1 else f"every {every}th",
    )
    kernel = f"Kernel {platform.release()}."
    return "\n".join([head, ". ".join([*figures, kernel]), "", *lines, "", TAIL])


def write_table(*, every: int) -> None:
    """Write the table."""
    if load_rows():
        TABLE.write_text(format_page(every))
