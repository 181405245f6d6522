"""The table cause x found x seconds, which a run writes."""

from __future__ import annotations

import json
import os
import platform
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from fullmesh.diagnose.catalogue import LAB, ROWS, Case
from fullmesh.settings import ROOT

from .bench import WORK
from .causes import FAULTS

ROWS_FOLDER = WORK / "rows"
TABLE = WORK / "faults.md"
DOCS = ROOT / "docs/faults.md"
SURPRISES = (
    "## Faults that nobody wrote down"  # the second half of the page, which tests/surprises writes
)
HEAD = """\
# Faults that diagnosis was tried on

Written by `pytest tests/faults --faults-docs`, on {day}. Every cause of the catalogue that containers, namespaces, nft,
tc or files can make (`src/fullmesh/diagnose/catalogue.py`) was made on lab nodes (look-alikes of CentOS Stream 9 and
Ubuntu 24.04, see [lab.md](lab.md)), one at a time, and `diagnose` was asked. *Found* says that exactly this code was
the one primary finding, with the right node, peer, direction and port; a diagnosis after {every} repair had to be
silent. *Seconds* is from the command to the answer, on {cores} cores that two labs and others shared (load average
{load:.0f} at the end). *tuned* nodes were configured by `site.yml`; *bare* nodes have addresses, typed in, and nothing
of Fullmesh.
"""
OLDER = """
That run made {made} of the faults; the rows of the others, and their seconds, are from {days}. Runs of a few faults may
have asked for silence after every 4th repair only.
"""
TAIL = """\
A container has no GPU, no RDMA device, no kernel's log and no clock of its own: GPUs were the lab's stand-in below the
real nvidia-smi, on nodes that pass for machines (row 54); their PCI tree and kernel's log, RDMA devices and the clock
were files. Causes that not even files can make (SELinux, the kernel's tables) are tested from recorded observations, in
`tests/unit`; they stand in the table as *recorded*.
"""


ROW = re.compile(
    r"^\| \d+ \| [^|]+ \| (?P<fault>\S+) \| (?P<lab>\w+) \| \S+ \| (?P<found>yes|NO) \| (?P<seconds>[\d.]+) \|$",
    re.MULTILINE,
)
SAID = re.compile(r"`\./fullmesh diagnose` on two nodes: .*? s(?=\. )")


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


def older() -> dict[str, dict[str, Any]]:
    """The rows of the page that is kept, for faults that this run did not make, with its day."""
    text = DOCS.read_text().partition(SURPRISES)[0] if DOCS.exists() else ""
    # of a page that several runs have written nobody knows any more which row is whose
    day = " and ".join(sorted(set(re.findall(r"\b\d{4}-\d\d-\d\d\b", text))))
    found: dict[str, dict[str, Any]] = {}
    for one in ROW.finditer(text):
        name = f"{one['lab']}-{one['fault']}"
        found[name] = {
            "name": name,
            "found": one["found"] == "yes",
            "seconds": float(one["seconds"]),
            "day": day,
        }
    said = SAID.search(text)
    if said:
        found["time"] = {"name": "time", "said": said[0], "day": day}
    return found


def line(*cells: object) -> str:
    """One line of a table."""
    return "| " + " | ".join(str(cell) for cell in cells) + " |"


def case_lines(number: int, cause: str, case: Case, held: dict[str, dict[str, Any]]) -> list[str]:
    """The lines of one case: one for each fault that makes it."""
    made = [fault for fault in FAULTS if fault.case == case.name]
    if not made:
        word = "recorded" if case.by != LAB else "NOT MADE"
        return [line(number, cause, case.name, "", case.code, word, "")]
    lines = []
    for fault in made:
        one = held.get(f"{fault.lab}-{fault.name}")
        word = "not run" if one is None else "yes" if one["found"] else "NO"
        seconds = f"{one['seconds']:.1f}" if one else ""
        code = fault.code or case.code
        lines.append(line(number, cause, fault.name, fault.lab, code, word, seconds))
    return lines


def text(every: int, before: Mapping[str, dict[str, Any]]) -> str:
    """The whole page; *before*: rows of an earlier run, for what this one did not make."""
    own = rows()
    held = {**before, **own}
    days = sorted({one["day"] for name, one in before.items() if name not in own})
    lines = [
        line("#", "cause", "case", "nodes", "code", "found", "seconds"),
        "|---|---|---|---|---|---|---|",
    ]
    for one in ROWS:
        for case in one.cases:
            lines += case_lines(one.number, one.cause, case, held)
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
    if days:
        made = sum("found" in one for one in own.values())
        head += OLDER.format(made=made, days=" and ".join(days))
    kernel = f"Kernel {platform.release()}."
    return "\n".join([head, ". ".join([*figures, kernel]), "", *lines, "", TAIL])


def finish(*, docs: bool, every: int) -> None:
    """Write the table, and the page that is kept."""
    if not rows():
        return
    TABLE.write_text(text(every, {}))
    if docs:
        _, mark, second = DOCS.read_text().partition(SURPRISES)
        DOCS.write_text(text(every, older()) + "\n" + mark + second)
