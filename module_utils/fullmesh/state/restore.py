# Copyright (c) the Fullmesh contributors
# SPDX-License-Identifier: MIT
"""Restore the state of an undo record, in the order that systemd needs. Standard library only."""

from __future__ import annotations

import functools
import os
import time
from typing import TYPE_CHECKING, TypedDict

from ..answer import format_file_for_diff, make_diff
from ..files import make_folders, replace_file
from . import written
from .errors import UndoError
from .observe import (
    act_on_path,
    observe_file,
    observe_state,
    observe_units,
    read_node_file,
    sysctl_to_proc_path,
)
from .record import KINDS, UndoPoint
from .removal import list_new_packages, plan_removal

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ..answer import Diff
    from ..schema.family import KeptPackage
    from .observe import Names, NodeSystem
    from .record import FileBefore, InterfaceBefore, UndoRecord, UndoState, UnitBefore

    Action = Callable[[], None]

UNIT_DIRECTORIES = (
    "/etc/systemd/",
    "/run/systemd/",
    "/usr/lib/systemd/",
    "/usr/local/lib/systemd/",
)
NOTHING: Names = {kind: [] for kind in KINDS}


class KeptFile(TypedDict):
    """A file that was changed by others since the role wrote it, and the path of the kept version."""

    path: str
    kept: str


class SetAsideResult(TypedDict):
    """The result if changed files were only set aside. ``exists``: there is an undo point."""

    changed: bool
    exists: bool
    kept: list[KeptFile]


class RestoreResult(SetAsideResult):
    """The result of undo_point with state restored. The module documents its keys."""

    restored: list[str]
    missing_units: list[str]
    remove_packages: list[str]
    kept_packages: list[KeptPackage]
    install_packages: list[str]
    interfaces: dict[str, InterfaceBefore]
    diff: list[Diff]


def restore_file(node: NodeSystem, path: str, then: FileBefore, content: bytes) -> None:
    """Restore a path."""
    if then["kind"] != "absent":
        make_folders(os.path.dirname(node.at(path)))
    act_on_path(node, path, lambda here: restore_path(here, then, content))


def restore_path(here: str, then: FileBefore, content: bytes) -> None:
    """Restore a path in an existing folder, as the account that owns the folder."""
    if os.path.lexists(here) and (then["kind"] != "file" or os.path.islink(here)):
        os.unlink(here)
    if then["kind"] == "file":
        owner = (then["uid"], then["gid"])
        replace_file(here, content, then["mode"], owner, then.get("context", ""))
    elif then["kind"] == "link":
        os.symlink(str(then["target"]), here)


def restore_sysctl(node: NodeSystem, key: str, value: str) -> None:
    """Write one value."""
    with open(node.at(sysctl_to_proc_path(key)), "w") as stream:
        stream.write(value + "\n")


def plan_unit_steps(
    then: dict[str, UnitBefore], now: dict[str, UnitBefore]
) -> dict[str, list[str]]:
    """Return the units to change by systemctl verb."""
    steps: dict[str, list[str]] = {}

    def add(verb: str, unit: str) -> None:
        steps.setdefault(verb, []).append(unit)

    for unit in sorted(then):
        if not now[unit]["found"]:
            continue
        was, state = str(then[unit]["enabled"]), str(now[unit]["enabled"])
        wanted = was if then[unit]["found"] else "disabled"
        if now[unit]["active"] and not then[unit]["active"]:
            add("stop", unit)
        if state.startswith("masked") and not wanted.startswith("masked"):
            add("unmask", unit)
        if wanted == "masked" and state != "masked":
            add("mask", unit)
        if wanted == "disabled" and state in ("enabled", "enabled-runtime"):
            add("disable", unit)
        if wanted == "enabled" and state != "enabled":
            add("enable", unit)
        if then[unit]["active"] and not now[unit]["active"]:
            add("start", unit)
    return steps


def format_file_before(entry: FileBefore, content: bytes) -> str:
    """Format a file for a diff, without secrets."""
    if entry["kind"] == "absent":
        return ""
    if entry["kind"] == "link":
        return f"link to {entry['target']}\n"
    head = f"mode {entry['mode']:04o} owner {entry['uid']}:{entry['gid']}\n"
    return head + format_file_for_diff(content, entry["mode"])


class Restoration:
    """Restores one undo point in the order that systemd needs: stop, files, reload, start."""

    def __init__(
        self,
        node: NodeSystem,
        role: str,
        check: bool,
        restart: list[str],
        leave: Sequence[str] = (),
    ) -> None:
        self.node = node
        self.point = UndoPoint(node.root, role)
        self.check = check
        self.restart = restart
        self.leave = leave
        self.kept: list[KeptFile] = []
        self.done: list[str] = []
        self.faults: list[str] = []
        self.diff: list[Diff] = []

    def run(self) -> RestoreResult:
        """Restore the state and return the differences."""
        then = self.point.load()
        now = observe_state(self.node, {kind: sorted(then[kind]) for kind in KINDS})
        contents = {path: self.point.blob(entry) for path, entry in then["files"].items()}
        changed = self.differing(then, now)
        self.keep(then, now)
        steps = plan_unit_steps(then["services"], now["services"])
        self.units("stop", steps)
        self.units("disable", steps)
        for path in changed:
            self.file(path, then["files"][path], now["files"][path], contents[path])
        self.directories(
            then["directories"], {path for path in changed if self.removes(then, path)}
        )
        self.sysctls(then["sysctls"], now["sysctls"])
        if any(path.startswith(UNIT_DIRECTORIES) for path in changed):
            self.systemctl("daemon-reload", [])
            # A restored unit file only takes effect now.
            now["services"] = observe_units(self.node, sorted(then["services"]))
            steps = plan_unit_steps(then["services"], now["services"])
        for verb in ("unmask", "enable", "mask", "start"):
            self.units(verb, steps)
        if changed:
            self.units("restart", {"restart": self.stale(then, now)})
        return self.result(then, now)

    def only_keep(self) -> SetAsideResult:
        """Keep files that others changed, for a role that restores its files itself."""
        then = self.point.load()
        self.keep(then, observe_state(self.node, {**NOTHING, "files": sorted(then["files"])}))
        self.refuse_faults()
        return {"changed": bool(self.kept), "exists": self.point.exists(), "kept": self.kept}

    def differing(self, then: UndoState, now: UndoState) -> list[str]:
        """Return the files that differ from before, without those that the role has restored."""
        paths = [path for path in sorted(then["files"]) if path not in self.leave]
        return [path for path in paths if then["files"][path] != now["files"][path]]

    def keep(self, then: UndoState, now: UndoState) -> None:
        """Keep each file that differs from the role's version, before the original replaces it."""
        ours = written.load_known_files(self.node.root, self.point.role)
        for path in self.differing(then, now):
            was, present = then["files"][path], now["files"][path]
            if present["kind"] == "absent" or written.fingerprint_entry(
                present
            ) == written.fingerprint_entry(was):
                continue
            # A new file that no record of writes mentions was written by the role.
            last = ours.get(
                path, written.fingerprint_entry(present) if was["kind"] == "absent" else ""
            )
            if written.fingerprint_entry(present) != last:
                self.set_aside(path, present)

    def set_aside(self, path: str, present: FileBefore) -> None:
        """Copy a file into its own folder, under a name that its readers ignore."""
        name = self.free_name(path, present)
        data = read_node_file(self.node, path) if present["kind"] == "file" else b""
        try:
            if not self.check and not os.path.lexists(self.node.at(name)):
                restore_file(self.node, name, present, data)
        except OSError as exc:
            raise UndoError(
                f"[UN-104] {self.point.role} was not restored: {path} was changed since Fullmesh wrote it, and "
                f"the changed version cannot be kept as {name}: {exc}. Nothing was restored. The undo point is kept. "
                "Fix: make room or move the file away, then run the undo again."
            ) from exc
        self.kept.append({"path": path, "kept": name})

    def free_name(self, path: str, present: FileBefore) -> str:
        """Return a free name, or the one that an unfinished undo gave to the same version."""
        date, taken = time.strftime("%Y-%m-%d", time.gmtime()), 0
        name = str(written.make_kept_name(path, date))
        while os.path.lexists(self.node.at(name)):
            if written.fingerprint_entry(
                observe_file(self.node, name)
            ) == written.fingerprint_entry(present):
                return name
            taken += 1
            name = str(written.make_kept_name(path, date, taken))
        return name

    def removes(self, then: UndoState, path: str) -> bool:
        """Return whether restoring *path* means removing it."""
        return bool(then["files"][path]["kind"] == "absent")

    def stale(self, then: UndoState, now: UndoState) -> list[str]:
        """Return the units that ran before and run now, since they still use Fullmesh's files."""
        both = (then["services"], now["services"])
        return [u for u in self.restart if all(u in side and side[u]["active"] for side in both)]

    def file(self, path: str, then: FileBefore, now: FileBefore, content: bytes) -> None:
        """Restore one path and save its diff."""
        present = read_node_file(self.node, path) if now["kind"] == "file" else b""
        self.diff.append(
            make_diff(path, format_file_before(now, present), format_file_before(then, content))
        )
        self.attempt("file:" + path, lambda: restore_file(self.node, path, then, content))

    def directories(self, then: dict[str, bool], gone: set[str]) -> None:
        """Remove directories that the role created, deepest first, if they are empty except for *gone*."""
        for path in sorted(then, key=len, reverse=True):
            here = self.node.at(path)
            if then[path] or os.path.islink(here) or not os.path.isdir(here):
                continue
            # in check mode nothing has been kept there yet
            if any(os.path.dirname(one["kept"]) == path for one in self.kept):
                continue
            if all(path + "/" + name in gone for name in os.listdir(here)):
                gone.add(path)
                self.attempt(
                    "directory:" + path, functools.partial(act_on_path, self.node, path, os.rmdir)
                )

    def sysctls(self, then: dict[str, str | None], now: dict[str, str | None]) -> None:
        """Write the values that differ. A key that the kernel no longer has is skipped."""
        for key in sorted(then):
            value = then[key]
            if value is None or now[key] is None or now[key] == value:
                continue
            self.diff.append(make_diff(key, f"{now[key]}\n", f"{value}\n"))
            action = functools.partial(restore_sysctl, self.node, key, value)
            self.attempt("sysctl:" + key, action)

    def units(self, verb: str, steps: dict[str, list[str]]) -> None:
        """Run one verb of systemctl for all units that need it."""
        units = steps.get(verb, [])
        if units:
            self.done += [f"service:{unit} {verb}" for unit in units]
            self.systemctl(verb, units)

    def systemctl(self, verb: str, units: list[str]) -> None:
        """Run systemctl unless in check mode. Collect failures for the end."""
        if self.check:
            return
        rc, out, err = self.node.run(["systemctl", verb, *units])
        if rc != 0:
            self.faults.append(f"systemctl {verb} {' '.join(units)}: {(err or out).strip()}")

    def attempt(self, what: str, action: Action) -> None:
        """Run a step and record its failure, so that all faults are reported, not only the first."""
        self.done.append(what)
        if self.check:
            return
        try:
            action()
        except (OSError, UndoError) as exc:
            self.done.remove(what)
            self.faults.append(f"{what}: {exc}")

    def refuse_faults(self) -> None:
        """Raise one error with every fault in it."""
        if self.faults:
            raise UndoError(
                f"[UN-104] {self.point.role} was not completely restored: "
                f"{'; '.join(self.faults)}. "
                "The undo point is kept. Fix: solve these problems, then run the undo again."
            )

    def result(self, then: UndoRecord, now: UndoState) -> RestoreResult:
        """Return the answer."""
        self.refuse_faults()
        before, after = then["packages"], now["packages"]
        new = sorted(n for n in before if before[n] != "installed" and after[n] != before[n])
        removal = plan_removal(self.node, new, list_new_packages(self.node, then))
        units = [
            u
            for u, entry in then["services"].items()
            if entry["found"] and not now["services"][u]["found"]
        ]
        return {
            "changed": bool(self.done),
            "restored": self.done,
            "kept": self.kept,
            "exists": self.point.exists(),
            "missing_units": sorted(units),
            "remove_packages": removal["names"],
            "kept_packages": removal["kept"],
            "install_packages": sorted(
                n for n in before if before[n] == "installed" and after[n] != "installed"
            ),
            "interfaces": then["interfaces"],
            "diff": self.diff,
        }
