# Copyright (c) the Fullmesh contributors
# SPDX-License-Identifier: MIT
"""Remember the state of this node before a role changes it, and restore it on demand. Standard library only."""

from __future__ import annotations

import json
import os
import re
from typing import TYPE_CHECKING, TypedDict

from ..answer import make_diff
from ..files import write_file_atomically
from . import written
from .errors import UndoError
from .observe import (
    NodeSystem,
    check_exact_path,
    has_dpkg,
    list_all_packages,
    list_missing_parents,
    observe_file,
    observe_packages,
    observe_state,
    read_node_file,
)
from .record import KINDS, UndoPoint
from .removal import list_new_packages, plan_removal
from .restore import Restoration

if TYPE_CHECKING:
    from collections.abc import Callable

    from ..answer import Diff
    from ..schema.family import KeptPackage
    from .observe import Names
    from .record import UndoRecord, UndoState

    Step = Callable[[written.WrittenFiles, dict[str, str]], written.WrittenFiles]

__all__ = [
    "KINDS",
    "NodeSystem",
    "Restoration",
    "UndoError",
    "forget_undo_point",
    "record_written_files",
    "remember_state",
]

LOCK_SECONDS = 120


class UndoPointResult(TypedDict):
    """The result of undo_point with state written. ``exists``: this role has an undo point."""

    changed: bool
    exists: bool


class RememberResult(UndoPointResult):
    """The result of state present: entries added to the undo point, as ``kind:name``."""

    saved: list[str]
    diff: Diff


class ForgetResult(UndoPointResult):
    """The result of state forgotten: purged dependencies that apt had installed, and those that others need."""

    swept: list[str]
    kept_packages: list[KeptPackage]


def list_unneeded_packages(node: NodeSystem) -> set[str]:
    """Return packages that apt installed automatically and that are no longer needed.

    A simulation needs no lock.

    A package that is only suggested by another does not count as needed (apt keeps it by default, apt.conf(5)).
    """
    weak = ["-o", "APT::AutoRemove::SuggestsImportant=false"]
    _, out, _ = node.run(["apt-get", "--simulate", "--quiet", *weak, "autoremove"])
    return set(re.findall(r"^(?:Remv|Purg) ([^ :]+)", out, re.MULTILINE))


def remember_state(node: NodeSystem, role: str, wanted: Names, check: bool) -> RememberResult:
    """Save the wanted state that is not remembered yet."""
    point = UndoPoint(node.root, role)
    record = point.load()
    paths = [check_exact_path(path) for path in wanted["files"]]
    parents = [parent for path in paths for parent in list_missing_parents(node, path)]
    directories = [check_exact_path(path) for path in wanted["directories"]] + parents
    for path in wanted["directories"]:
        directories += list_missing_parents(node, path)
    full: Names = {**wanted, "directories": directories}
    new = {kind: sorted(set(full[kind]) - set(record[kind])) for kind in KINDS}
    saved = [f"{kind}:{name}" for kind in KINDS for name in new[kind]]
    if saved:
        add_observed_state(record, observe_state(node, new))
        if not check:
            # only apt leaves dependencies installed (saved once, since later packages were not there before)
            if new["packages"] and record["installed"] is None and has_dpkg(node):
                record["installed"] = list_all_packages(node)
            point.save(record, read_file_contents(node, record, new["files"]))
    if not check:
        begin_install_record(node, point, wanted["packages"])
    if point.exists() and not check:
        update_written_record(node, role, written.begin_written_record, record)
    lines = "".join(line + "\n" for line in saved)
    return {
        "changed": bool(saved),
        "saved": saved,
        "exists": point.exists(),
        "diff": make_diff("undo point of " + role, "", lines),
    }


def begin_install_record(node: NodeSystem, point: UndoPoint, names: list[str]) -> None:
    """Save the list of installed packages if one of *names* is missing. A list from a run that died stays valid."""
    if not names:
        return
    states = observe_packages(node, names).values()
    lacking = any(state != "installed" for state in states)
    record = point.load()
    if lacking and "installing" not in record["part"]:
        record["part"]["installing"] = list_all_packages(node)
        point.save(record, {})


def end_install_record(node: NodeSystem, point: UndoPoint) -> None:
    """Save the packages that came since `begin_install_record`. Packages that are installed later belong to others."""
    record = point.load()
    if "installing" in record["part"]:
        record["part"]["brought"] = list_new_packages(node, record)
        del record["part"]["installing"]
        point.save(record, {})


def add_observed_state(record: UndoRecord, seen: UndoState) -> None:
    """Add the observed state to the record."""
    record["files"].update(seen["files"])
    record["directories"].update(seen["directories"])
    record["sysctls"].update(seen["sysctls"])
    record["services"].update(seen["services"])
    record["packages"].update(seen["packages"])
    record["interfaces"].update(seen["interfaces"])


def read_file_contents(node: NodeSystem, record: UndoRecord, paths: list[str]) -> dict[str, bytes]:
    """Return the content of those *paths* that are files."""
    files = [path for path in paths if record["files"][path]["kind"] == "file"]
    return {path: read_node_file(node, path) for path in files}


def update_written_record(node: NodeSystem, role: str, step: Step, record: UndoRecord) -> None:
    """Update the record of written files at the beginning or end of a role."""
    path = written.written_record_path(node.root, role)
    now = {one: written.fingerprint_entry(observe_file(node, one)) for one in record["files"]}
    before = written.load_written_files(path)
    after = step(before, now)
    if after != before and now:
        text = json.dumps(after, indent=1, sort_keys=True) + "\n"
        write_file_atomically(path, text, 0o600, (os.getuid(), os.getgid()))


def record_written_files(node: NodeSystem, role: str, check: bool) -> UndoPointResult:
    """Record the files that the role wrote. This is bookkeeping and does not count as a change."""
    point = UndoPoint(node.root, role)
    if point.exists() and not check:
        end_install_record(node, point)
        update_written_record(node, role, written.end_written_record, point.load())
    return {"changed": False, "exists": point.exists()}


def forget_undo_point(node: NodeSystem, role: str, check: bool) -> ForgetResult:
    """Remove an undo point if there is one, and purge the packages that apt installed with the role's packages."""
    point = UndoPoint(node.root, role)
    found = os.path.isdir(point.directory)
    along = list_swept_packages(node, point) if found else []
    removal = plan_removal(node, along, along)
    swept = removal["names"]
    if found and not check:
        if swept:
            purge_packages(node, role, swept)
        point.forget()
    return {
        "changed": found,
        "exists": found and check,
        "swept": swept,
        "kept_packages": removal["kept"],
    }


def list_swept_packages(node: NodeSystem, point: UndoPoint) -> list[str]:
    """Return packages that came with the role's packages and are no longer needed."""
    record = point.load()
    before = record["installed"]
    if before is None:
        return []
    return sorted(
        (list_unneeded_packages(node) - set(before)) & set(list_new_packages(node, record))
    )


def purge_packages(node: NodeSystem, role: str, names: list[str]) -> None:
    """Purge packages. Waits for another running apt."""
    wait = f"DPkg::Lock::Timeout={LOCK_SECONDS}"
    rc, out, err = node.run(["apt-get", "--quiet", "--yes", "-o", wait, "purge", *names])
    if rc != 0:
        raise UndoError(
            f"[UN-104] {role} was not completely restored: apt-get purge "
            f"{' '.join(names)}: {(err or out).strip()[-300:]}. "
            "The undo point is kept. Fix: solve this problem, then run the undo again."
        )
