"""The figures of a run with random faults."""

from __future__ import annotations

import json
import os
import platform
import re
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from .score import Score, is_flawless

BUSY = 20
HEAD = """\
# Faults that nobody wrote down

Printed by `PYTHONPATH=src:tests:tests/support python -m surprises.run --table` on {day}, kernel {kernel}, {cores} cores
that others shared (load average {load:.0f} at the end), from the seeds {first} to {last}.
`tests/surprises` makes faults by chance, one for each seed: rules of
nftables with any match, verdict, family, hook and priority, routes, rules that pick a table, neighbours, queues,
settings, cards, IPsec, names, variables. An oracle that knows nothing of Fullmesh connects as a job's account between
two nodes in both directions and sends 192 KiB there and back, twice where the first did not come through, or only with
segments sent again; where it met nothing and the diagnosis says something it looks up to six times more, at the ports
that are doubted as well, since a chance or a few ports of the kernel's choice may spare one of the two. What it met is
a *hit*. *Found*: the diagnosis has a finding about a link, or the node, that is
broken. *Node*, *direction*, *port*: it has them right. *One*: there is one error and no more. *Named*: it names what
was made (the table, the route, the setting), not only where. A *false alarm* is an error where the oracle met nothing.
The nodes are asked by the diagnosis' own code without Ansible around it (`agent.py`), which is told the oracle's
account as it would be told `launchers_job_user`.
"""
COLUMNS = ("found", "node", "direction", "port", "one", "named")
HEADS = ("kind", "made", "hit", *COLUMNS, "false alarms")


def read_rows(paths: Sequence[Path]) -> list[Score]:
    """Rows of runs, the last of each seed."""
    found: dict[tuple[int, str], Score] = {}
    for path in paths:
        for text in path.read_text().splitlines():
            values: dict[str, Any] = json.loads(text)
            row = Score(**{**values, "codes": tuple(values["codes"])})
            found[(row.seed, row.script if row.kind == "healthy" else "")] = row
    return sorted(found.values(), key=lambda row: row.seed)


def format_line(*cells: object) -> str:
    """One line of a table."""
    return "| " + " | ".join(str(cell).replace("|", "\\|") for cell in cells) + " |"


def format_counts(kind: str, rows: Sequence[Score]) -> str:
    """One line of the figures."""
    hit = [row for row in rows if row.hit]
    quiet = [row for row in rows if not row.hit]
    marks = [sum(bool(getattr(row, column)) for row in hit) for column in COLUMNS]
    alarms = f"{sum(row.false for row in quiet)} of {len(quiet)}"
    return format_line(kind, len(rows), len(hit), *marks, alarms)


def describe_healthy_diagnoses(rows: Sequence[Score]) -> list[str]:
    """Describe the diagnoses of healthy nodes."""
    loads = [int(re.findall(r"\d+", row.script)[0]) for row in rows]
    if not loads:
        return []
    busy = sum(one >= BUSY for one in loads)
    return [
        f"Nodes that nobody broke were diagnosed {len(rows)} times, {busy} of them at a load average of {BUSY} or more"
        f" (at most {max(loads)}): {sum(row.false for row in rows)} false alarms.",
        "",
    ]


def list_misses(rows: Sequence[Score]) -> list[str]:
    """What was not found, or not right."""
    missed = [row for row in rows if not is_flawless(row)]
    if not missed:
        return []
    lines = ["What was not found, or not right:", "", format_line("seed", "what", "said", "fault")]
    lines.append("|---|---|---|---|")
    for row in missed:
        fault = "; ".join(part for part in row.script.split("\n") if "RULES" not in part)
        codes = ", ".join(row.codes) or "nothing"
        lines.append(format_line(row.seed, describe_error(row), codes, f"`{fault}`"))
    return [*lines, ""]


def describe_error(row: Score) -> str:
    """Describe the error of a diagnosis."""
    if row.false:
        return "false alarm"
    if not row.found:
        return "not found"
    return ", ".join(f"wrong {key}" for key in ("node", "direction") if not getattr(row, key))


def render_page(rows: Sequence[Score]) -> str:
    """The page."""
    faults = [row for row in rows if row.kind != "healthy"]
    healthy = [row for row in rows if row.kind == "healthy"]
    head = HEAD.format(
        first=min((row.seed for row in faults), default=0),
        last=max((row.seed for row in faults), default=0),
        day=f"{datetime.now(UTC):%Y-%m-%d}",
        kernel=platform.release(),
        cores=os.cpu_count(),
        load=os.getloadavg()[0],
    )
    kinds = sorted({row.kind for row in faults})
    lines = [head, format_line(*HEADS), "|---" * len(HEADS) + "|"]
    lines += [format_counts(kind, [row for row in faults if row.kind == kind]) for kind in kinds]
    lines += [format_counts("**all**", faults), ""]
    return "\n".join([*lines, *describe_healthy_diagnoses(healthy), *list_misses(faults)])
