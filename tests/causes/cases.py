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
    """Return the codes with a case file, and the module of each file."""
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


def collect_case_values(kind: str) -> dict[str, Any]:
    """Map the name of each case of a kind, which includes its code, to the case."""
    return {name: case for name, (_, case) in collect_cases(kind).items()}


CHANGE_CASES = collect_cases("CHANGES")


def get_severity(name: str) -> str:
    """Return the severity of a change's finding: its own, or that of the cause."""
    code, change = CHANGE_CASES[name]
    cause = load_cause(code)
    assert cause
    return str(change.severity or cause.severity)


# name of a change -> code of its finding, node of the finding, the change
ALL_CHANGES: dict[str, tuple[str, str, Break]] = {
    name: (code, change.node, change.apply) for name, (code, change) in CHANGE_CASES.items()
}
BOOT_CHANGES = {name: one for name, one in ALL_CHANGES.items() if one[0] in list_boot_codes()}
CHANGES = {name: one for name, one in ALL_CHANGES.items() if name not in BOOT_CHANGES}
# name of a recording -> code of its finding, node of the finding
RECORDED: dict[str, tuple[str, str]] = collect_cases("RECORDED")
# name of a change in the observations of a verification -> code of its finding, the change
VERIFICATION: dict[str, tuple[str, Callable[[ClusterObservations], Any]]] = collect_cases(
    "VERIFICATION"
)
# changes that look like a cause, but are harmless
QUIET: dict[str, Break] = collect_case_values("QUIET")
FAULTS: tuple[Fault, ...] = tuple(
    fault for module in MODULES.values() for fault in getattr(module, "FAULTS", ())
)
# recorded job -> the top findings: code, ranks, place (the others are their consequences)
JOBS: dict[str, list[tuple[str, tuple[int, ...], str]]] = collect_case_values("JOBS")
# name -> codes of the top findings, the recorded job, the change in it
JOB_CHANGES: dict[str, tuple[list[str], str, Callable[[Any], object]]] = collect_case_values(
    "JOB_CHANGES"
)
# job recorded on lab nodes -> code, ranks, texts of the sentence and of ``seen``
LAB_JOBS: dict[str, tuple[str, tuple[int, ...], str, str]] = collect_case_values("LAB_JOBS")
JOB_FAULTS: tuple[JobFault, ...] = tuple(
    fault for module in MODULES.values() for fault in getattr(module, "JOB_FAULTS", ())
)
