# Copyright (c) the Fullmesh contributors
# SPDX-License-Identifier: MIT
"""Configure chrony with the cluster's time source, and verify that it is synchronized.

Runs on nodes: standard library only.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, TypedDict

from . import chrony
from .answer import diff_file, make_diff
from .files import SPACE, read_text_file, read_text_or_empty, write_or_remove_file
from .tools import chronyc, systemctl

if TYPE_CHECKING:
    from .answer import Diff
    from .commands import SplitRunner


PROPERTIES = ("LoadState", "ActiveState", "UnitFileState", "MainPID", "CapabilityBoundingSet")
POLL_SECONDS = 0.5
AGAIN_SECONDS = (
    10  # iburst stops after 8 requests in 16 s: repeat it for a leader that started later
)


class ChronySyncParams(TypedDict):
    """The parameters of chrony_sync. The module documents them."""

    config: str
    drop_ins: list[str]
    lines: list[str]
    only: bool
    unit: str
    unit_drop_in: str
    displaced: list[str]
    expected: list[str]
    wait_seconds: int


class ChronyStatus(TypedDict, total=False):
    """The state of chrony once it is synchronized. ``clock_is_set``: it runs without -x."""

    tracking: chronyc.ChronyTracking
    sources: list[chronyc.ChronySource]
    clock_is_set: bool


class ChronySyncResult(ChronyStatus):
    """The answer of chrony_sync. ``files``: those with Fullmesh's content."""

    changed: bool
    files: list[str]
    diff: list[Diff]


class ChronySyncError(Exception):
    """A coded sentence for the user."""


class ChronySync:
    """One call of the module."""

    def __init__(self, run: SplitRunner, params: ChronySyncParams, check: bool) -> None:
        self.run = run
        self.params = params
        self.check = check
        self.unit = params["unit"]

    def units(self) -> dict[str, dict[str, str]]:
        """Return all units' properties with one call."""
        names = [self.unit, *self.params["displaced"]]
        _, out, _ = self.run(systemctl.build_show_command(PROPERTIES, names))
        return dict(zip(names, systemctl.parse_unit_blocks(out)))

    def wanted(self, unit: dict[str, str]) -> dict[str, str]:
        """Return the wanted files: {path: content, empty for absent}."""
        config = self.params["config"]
        files = chrony.build_chrony_files(
            config,
            read_text_file(config),
            self.params["drop_ins"],
            self.params["lines"],
            self.params["only"],
        )
        drop_in = self.params["unit_drop_in"]
        files[drop_in] = read_text_file(drop_in)
        bounding = unit.get("CapabilityBoundingSet", "")
        allowed = chrony.can_set_clock(
            read_text_or_empty("/proc/1/status"), read_text_or_empty("/proc/1/uid_map"), bounding
        )
        if allowed:
            files[drop_in] = ""
        elif not files[drop_in]:
            command = chrony.find_chronyd_command(
                self.run(["systemctl", "cat", "--no-pager", self.unit])[1]
            )
            files[drop_in] = chrony.render_unit_drop_in(command) if command else ""
        return files

    def converge(self) -> ChronySyncResult:
        """Write the files, start chrony, verify."""
        units = self.units()
        own = units.get(self.unit, {})
        old_displaced = [
            name for name in self.params["displaced"] if self.in_the_way(units.get(name, {}))
        ]
        wanted = self.wanted(own)
        old = {path: read_text_file(path) for path in wanted}
        paths = sorted(path for path in wanted if wanted[path] != old[path])
        running = own.get("ActiveState") == "active" and own.get("UnitFileState") in (
            "enabled",
            "alias",
        )
        result: ChronySyncResult = {
            "changed": bool(paths or old_displaced or not running),
            "files": sorted(path for path in wanted if self.ours(path, wanted[path])),
            "diff": [diff_file(path, old[path], wanted[path]) for path in paths],
        }
        if not running:
            result["diff"].append(self.unit_diff(own))
        if not self.check:
            self.apply(old_displaced, {path: wanted[path] for path in paths}, running)
        elif result["changed"]:
            return result
        return {**self.read_back(), **result}

    def ours(self, path: str, content: str) -> bool:
        """Return whether a file has Fullmesh's content. The main configuration may be the distribution's alone."""
        marks = (chrony.BEGIN, chrony.MUTED)
        return bool(content) and (
            path != self.params["config"] or any(mark in content for mark in marks)
        )

    def unit_diff(self, unit: dict[str, str]) -> Diff:
        """Return the diff of the unit's state, even if chrony is not installed yet."""
        keys = ("LoadState", "ActiveState", "UnitFileState")
        before = " ".join(unit.get(key, "") for key in keys).strip(SPACE)
        return make_diff(self.unit, before + "\n", "loaded active enabled\n")

    def in_the_way(self, unit: dict[str, str]) -> bool:
        """Return whether another time service runs or would start at the next boot."""
        return unit.get("ActiveState") == "active" or unit.get("UnitFileState") == "enabled"

    def apply(self, displaced: list[str], files: dict[str, str], running: bool) -> None:
        """Apply the configuration."""
        for path, content in files.items():
            write_or_remove_file(path, content)
        if self.params["unit_drop_in"] in files:
            self.must(["systemctl", "daemon-reload"])
        if displaced:
            self.must(["systemctl", "disable", "--now", *displaced])
        if not running:
            self.must(["systemctl", "enable", self.unit])
        if files or not running:
            self.must(["systemctl", "restart", self.unit])

    def must(self, command: list[str]) -> None:
        """Run a command that has to succeed."""
        rc, out, err = self.run(command)
        if rc != 0:
            raise ChronySyncError(
                "[TS-103] chrony cannot be started: {}: {}. Check: `journalctl -u {}` on the node.".format(
                    " ".join(command), (err or out).strip(SPACE), self.unit
                )
            )

    def read_back(self) -> ChronyStatus:
        """Wait until the clock is synchronized."""
        start = asked = time.monotonic()
        while True:
            tracking = chronyc.parse_tracking(self.run(chronyc.SHOW_TRACKING)[1])
            sources = chronyc.parse_sources(self.run(chronyc.SHOW_SOURCES)[1])
            why = chrony.explain_unsynchronised(tracking, sources, self.params["expected"])
            now = time.monotonic()
            if not why:
                return {"tracking": tracking, "sources": sources, "clock_is_set": self.sets_clock()}
            if now - start >= self.params["wait_seconds"]:
                raise ChronySyncError(
                    f"[TS-104] The clock is not synchronised after {self.params['wait_seconds']} "
                    f"s: {why}. Fix: open 123/udp to the source, or choose another one: "
                    "time_sync_source (distribution, servers, leader)."
                )
            if now - asked >= AGAIN_SECONDS:
                asked = now
                self.run(["chronyc", "-n", "burst", "2/4"])
            time.sleep(POLL_SECONDS)

    def sets_clock(self) -> bool:
        """Return whether the running chronyd was started without -x."""
        pid = self.units().get(self.unit, {}).get("MainPID", "0")
        return "-x" not in read_text_or_empty("/proc/" + pid + "/cmdline").split("\0")
