"""The page of systems and tests: which part of the tests last passed on which system, when, and with which commit.

``fullmesh test --record`` writes the page, so that it lists only runs that ended well.
"""

from __future__ import annotations

import datetime
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from devtools.lab.plan import SYSTEMS
from devtools.parts import Part, list_stages
from fullmesh.roles.preflight import SUPPORTED
from fullmesh.settings import ROOT

PAGE = ROOT / "docs/development/systems.md"
HEAD = """\
# Systems and tests

`./fullmesh test --all --record` writes this page. It lists the parts of the tests that run on a
system, and the last recorded run of all their tests that passed. CI runs a selection of them with
every change, and records nothing. [Test coverage](tested.md) says what each test shows.

- **Look-alike**: the tools, names, paths and package formats of the system, on Debian's binaries.
- **Emulated**: a look-alike in a virtual machine, with a kernel of its own.
- Debian 12 and 13 are Debian's own packages, without changes, in containers.

"""
NEVER = "not recorded"
ROW = re.compile(r"^\| (.+?) \| (.+?) \| (\d{4}-\d\d-\d\d) \| (\S+) \| (\d+) \|$", re.MULTILINE)


@dataclass(frozen=True)
class PassedRun:
    """A run of a part that passed.

    Attributes:
        date: in the form 2026-11-28.
        commit: short, with ``-dirty`` for a changed tree.
        seconds: its duration.
    """

    date: str
    commit: str
    seconds: int


def list_system_parts() -> list[Part]:
    """List the parts that run on a system."""
    return [part for stage in list_stages() for part in stage if part.systems]


def list_untested_systems() -> list[str]:
    """List the systems that the roles support and that no part runs on."""
    known = [f"{name} {version}" for name, versions in SUPPORTED.items() for version in versions]
    covered = " ".join(SYSTEMS.values()).replace("CentOS Stream", "CentOS")
    return [name for name in known if not re.search(rf"{name}\b", covered)]


def parse_runs(text: str) -> dict[str, PassedRun]:
    """Return the recorded runs of a page, by the name of their part."""
    return {
        name: PassedRun(date, commit, int(seconds))
        for name, _systems, date, commit, seconds in ROW.findall(text)
    }


def render_systems_page(parts: Iterable[Part], runs: Mapping[str, PassedRun]) -> str:
    """Return the page: one row for each part, with its last run."""
    lines = ["| part | systems | date | commit | seconds |", "|---|---|---|---|---|"]
    for part in sorted(parts, key=lambda part: part.name):
        run = runs.get(part.name)
        last = f"{run.date} | {run.commit} | {run.seconds}" if run else f"{NEVER} | |"
        lines.append(f"| {part.name} | {', '.join(part.systems)} | {last} |")
    names = "\n".join(f"- {name}" for name in list_untested_systems())
    untested = f"The roles have variables for these systems, but no test runs on them:\n\n{names}\n"
    return HEAD + "\n".join(lines) + "\n\n" + untested


def record_runs(passed: Iterable[tuple[Part, float]], commit: str) -> None:
    """Write the page with new runs that passed, and their seconds. A selection of a part's tests does not count."""
    parts = list_system_parts()
    today = datetime.datetime.now(tz=datetime.UTC).date().isoformat()
    runs = parse_runs(PAGE.read_text(encoding="utf-8"))
    runs |= {
        part.name: PassedRun(today, commit, round(seconds))
        for part, seconds in passed
        if part in parts
    }
    PAGE.write_text(render_systems_page(parts, runs), encoding="utf-8")
