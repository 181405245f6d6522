"""All case files, found by the names of the causes' modules."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

from causes.changes import Break
from causes.faults import Fault
from fullmesh.causes.engine import index_cause_modules, load_cause
from fullmesh.diagnose.run import list_boot_codes

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
FAULTS: tuple[Fault, ...] = tuple(
    fault for module in MODULES.values() for fault in getattr(module, "FAULTS", ())
)
