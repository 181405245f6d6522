"""All case files, found by the names of the causes' modules."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

from causes.changes import Break
from causes.faults import Fault
from causes.job_faults import JobFault
from fullmesh.causes.engine import index_cause_modules, load_cause
from fullmesh.diagnose.run import list_boot_codes
from fullmesh.verify.model import ClusterObservations

FOLDER = Path(__file__).parent


def iterate_case_modules() -> Iterator[tuple[str, ModuleType]]:
    """Each code that has a case file, and the file's module."""
    for code, name in index_cause_modules().items():
        own = name.removeprefix("fullmesh.")
        if FOLDER.joinpath(*own.split(".")[1:]).with_suffix(".py").is_file():
            yield code, importlib.import_module(own)


MODULES = dict(iterate_case_modules())


def collect_cases(kind: str) -> dict[str, tuple[str, Any]]:
    """Map the name of each case of a kind to its code and itself."""
    return {
        name: (code, case)
        for code, module in MODULES.items()
        for name, case in getattr(module, kind, {}).items()
    }


def collect_own(kind: str) -> dict[str, Any]:
    """Map the name of each case of a kind to itself; it says its code."""
    return {name: case for name, (_, case) in collect_cases(kind).items()}


HELD = collect_cases("CHANGES")


def get_severity(name: str) -> str:
    """How grave the finding of a change is: its own word, or the cause's."""
    code, change = HELD[name]
    cause = load_cause(code)
    assert cause
    return str(change.severity or cause.severity)


# name of a change -> the code that it gives, the node that is named, the change
ALL_CHANGES: dict[str, tuple[str, str, Break]] = {
    name: (code, change.node, change.apply) for name, (code, change) in HELD.items()
}
BOOT_CHANGES = {name: one for name, one in ALL_CHANGES.items() if one[0] in list_boot_codes()}
CHANGES = {name: one for name, one in ALL_CHANGES.items() if name not in BOOT_CHANGES}
# name of a recording -> the code that it gives, the node that is named
RECORDED: dict[str, tuple[str, str]] = collect_cases("RECORDED")
# name of a change of what verified nodes said -> the code that it gives, the change
VERIFICATION: dict[str, tuple[str, Callable[[ClusterObservations], Any]]] = collect_cases(
    "VERIFICATION"
)
# what looks like a cause and harms nothing
QUIET: dict[str, Break] = collect_own("QUIET")
FAULTS: tuple[Fault, ...] = tuple(
    fault for module in MODULES.values() for fault in getattr(module, "FAULTS", ())
)
# a job that was recorded -> the findings at the top: code, ranks, place; the others are folded under them
JOBS: dict[str, list[tuple[str, tuple[int, ...], str]]] = collect_own("JOBS")
# name -> the codes at the top, the recorded job, what is changed in it
JOB_CHANGES: dict[str, tuple[list[str], str, Callable[[Any], object]]] = collect_own("JOB_CHANGES")
# a job that was recorded on lab nodes -> code, ranks, words of the sentence and of what is seen
LAB_JOBS: dict[str, tuple[str, tuple[int, ...], str, str]] = collect_own("LAB_JOBS")
JOB_FAULTS: tuple[JobFault, ...] = tuple(
    fault for module in MODULES.values() for fault in getattr(module, "JOB_FAULTS", ())
)
