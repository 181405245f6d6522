# Copyright (c) the Fullmesh contributors
# SPDX-License-Identifier: MIT
"""What a role is about to change on this node: remembered, and put back on demand. Stdlib only."""

from __future__ import annotations

import json
import os
import re
from typing import TYPE_CHECKING, TypedDict

from ..answer import diff
from ..files import put
from ..packages.removal import packages_that_came, plan_removal
from . import written
from .errors import UndoError
from .observe import (
    Node,
    all_packages,
    clean_path,
    is_dpkg,
    missing_parents,
    observe,
    observe_file,
    observe_packages,
    read_content,
)
from .record import KINDS, Point
from .restore import Restoration

if TYPE_CHECKING:
    from collections.abc import Callable

    from ..answer import Diff
    from ..schema.family import KeptPackage
    from .observe import Names
    from .record import Record, State

    Step = Callable[[written.Written, dict[str, str]], written.Written]

__all__ = [
    "KINDS",
    "Node",
    "Restoration",
    "UndoError",
    "forget",
    "note_written",
    "remember",
]

LOCK_SECONDS = 120


class Noted(TypedDict):
    """The answer of undo_point, state written; ``exists``: there is a point of this role."""

    changed: bool
    exists: bool


class Remembered(Noted):
    """State present: what was added to the point, as ``kind:name``."""

    saved: list[str]
    diff: Diff


class Forgotten(Noted):
    """State forgotten: packages that apt had brought along and that were purged, and those that others need."""

    swept: list[str]
    kept_packages: list[KeptPackage]


def not_needed(node: Node) -> set[str]:
    """Name what apt brought along for others and nobody needs any more; a simulation, needs no lock.

    A package that is only suggested by another one is not needed (apt keeps it by default, apt.conf(5)).
    """
    weak = ["-o", "APT::AutoRemove::SuggestsImportant=false"]
    _, out, _ = node.run(["apt-get", "--simulate", "--quiet", *weak, "autoremove"])
    return set(re.findall(r"^(?:Remv|Purg) ([^ :]+)", out, re.MULTILINE))


def remember(node: Node, role: str, wanted: Names, check: bool) -> Remembered:
    """Save what is wanted and not remembered yet."""
    point = Point(node.root, role)
    record = point.load()
    paths = [clean_path(path) for path in wanted["files"]]
    parents = [parent for path in paths for parent in missing_parents(node, path)]
    directories = [clean_path(path) for path in wanted["directories"]] + parents
    for path in wanted["directories"]:
        directories += missing_parents(node, path)
    full: Names = {**wanted, "directories": directories}
    new = {kind: sorted(set(full[kind]) - set(record[kind])) for kind in KINDS}
    saved = [f"{kind}:{name}" for kind in KINDS for name in new[kind]]
    if saved:
        add(record, observe(node, new))
        if not check:
            # only apt leaves behind what it brought along; once, for what comes later is not of before
            if new["packages"] and record["installed"] is None and is_dpkg(node):
                record["installed"] = all_packages(node)
            point.save(record, contents(node, record, new["files"]))
    if not check:
        begin_installing(node, point, wanted["packages"])
    if point.exists() and not check:
        note(node, role, written.begun, record)
    lines = "".join(line + "\n" for line in saved)
    return {
        "changed": bool(saved),
        "saved": saved,
        "exists": point.exists(),
        "diff": diff("undo point of " + role, "", lines),
    }


def begin_installing(node: Node, point: Point, names: list[str]) -> None:
    """Keep what is installed if one of *names* is still to come; of a run that died, what it had found counts."""
    if not names:
        return
    states = observe_packages(node, names).values()
    lacking = any(state != "installed" for state in states)
    record = point.load()
    if lacking and "installing" not in record["part"]:
        record["part"]["installing"] = all_packages(node)
        point.save(record, {})


def end_installing(node: Node, point: Point) -> None:
    """Keep what came since `begin_installing`: what others install later is not ours to take away."""
    record = point.load()
    if "installing" in record["part"]:
        record["part"]["brought"] = packages_that_came(node, record)
        del record["part"]["installing"]
        point.save(record, {})


def add(record: Record, seen: State) -> None:
    """Take over what was observed."""
    record["files"].update(seen["files"])
    record["directories"].update(seen["directories"])
    record["sysctls"].update(seen["sysctls"])
    record["services"].update(seen["services"])
    record["packages"].update(seen["packages"])
    record["interfaces"].update(seen["interfaces"])


def contents(node: Node, record: Record, paths: list[str]) -> dict[str, bytes]:
    """The bytes of those *paths* that are files."""
    files = [path for path in paths if record["files"][path]["kind"] == "file"]
    return {path: read_content(node, path) for path in files}


def note(node: Node, role: str, step: Step, record: Record) -> None:
    """Keep what the role finds when it begins, or has written when it ends."""
    path = written.record_path(node.root, role)
    now = {one: written.content(observe_file(node, one)) for one in record["files"]}
    before = written.load(path)
    after = step(before, now)
    if after != before and now:
        text = json.dumps(after, indent=1, sort_keys=True) + "\n"
        put(path, text, 0o600, (os.getuid(), os.getgid()))


def note_written(node: Node, role: str, check: bool) -> Noted:
    """Tell what the role wrote from what others did before it began; that is bookkeeping, no change."""
    point = Point(node.root, role)
    if point.exists() and not check:
        end_installing(node, point)
        note(node, role, written.ended, point.load())
    return {"changed": False, "exists": point.exists()}


def forget(node: Node, role: str, check: bool) -> Forgotten:
    """Drop a point if there is one, and purge what apt brought along with its packages."""
    point = Point(node.root, role)
    found = os.path.isdir(point.directory)
    along = brought_along(node, point) if found else []
    removal = plan_removal(node, along, along)
    swept = removal["names"]
    if found and not check:
        if swept:
            purge(node, role, swept)
        point.forget()
    return {
        "changed": found,
        "exists": found and check,
        "swept": swept,
        "kept_packages": removal["kept"],
    }


def brought_along(node: Node, point: Point) -> list[str]:
    """Name the packages that came with ours and that nobody needs now that ours are gone."""
    record = point.load()
    before = record["installed"]
    if before is None:
        return []
    return sorted((not_needed(node) - set(before)) & set(packages_that_came(node, record)))


def purge(node: Node, role: str, names: list[str]) -> None:
    """Remove packages with their configuration; another apt is waited for."""
    wait = f"DPkg::Lock::Timeout={LOCK_SECONDS}"
    rc, out, err = node.run(["apt-get", "--quiet", "--yes", "-o", wait, "purge", *names])
    if rc != 0:
        raise UndoError(
            f"[UN-104] not everything of {role} could be put back: apt-get purge "
            f"{' '.join(names)}: {(err or out).strip()[-300:]}. "
            "Fix what is named and run the undo again: the point is kept."
        )
