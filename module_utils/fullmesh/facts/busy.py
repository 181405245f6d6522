# Copyright (c) the Fullmesh contributors
# SPDX-License-Identifier: MIT
"""Find programs that are already changing the node: first boot, updates, package managers.

Standard library only.

An installation at the same time would fail after minutes. On a new node all of these run at once: cloud-init, then
apt-daily and unattended-upgrades.
"""

from __future__ import annotations

import contextlib
import os
import re
import time
from typing import TYPE_CHECKING

from ..foreign_text import parse_decimal
from ..tools import systemctl
from .node import read_stripped, run_command

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ..commands import Runner


# Package managers hold these with POSIX locks.
LOCKS = (
    "/var/lib/dpkg/lock-frontend",
    "/var/lib/dpkg/lock",
    "/var/lib/apt/lists/lock",
    "/var/cache/apt/archives/lock",
    "/var/lib/rpm/.rpm.lock",
    "/usr/lib/sysimage/rpm/.rpm.lock",
)
# dnf 4 keeps its process id in these while it works, and leaves them empty or away otherwise.
PIDS = (
    "/var/cache/dnf/download_lock.pid",
    "/var/cache/dnf/metadata_lock.pid",
    "/var/lib/dnf/rpmdb_lock.pid",
)
# They take and let go of locks several times before they are through.
UNITS = (
    "apt-daily.service",
    "apt-daily-upgrade.service",
    "dnf-automatic.service",
    "dnf-automatic-install.service",
    "dnf-automatic-download.service",
)
POLL_SECONDS = 2.0
# Between two steps of the same update there is a moment without any lock.
CALM_POLLS = 2


def describe_pid(pid: str, root: str = "") -> str:
    """Describe a process for people, or return "" if it is gone."""
    name = read_stripped(f"{root}/proc/{pid}/comm")
    return f"{name} (pid {pid})" if name else ""


def parse_posix_locks(text: str) -> dict[tuple[int, int, int], str]:
    """Parse proc_locks(5) into (major, minor, inode) -> pid of the writer.

    Waiting processes (``->``) are left out.
    """
    found = {}
    form = r"^\d+: POSIX +\S+ +WRITE +(\d+) +([0-9a-f]+):([0-9a-f]+):(\d+) "
    for pid, major, minor, inode in re.findall(form, text, re.MULTILINE):
        found[int(major, 16), int(minor, 16), int(inode)] = pid
    return found


def list_open_files(pid: str, root: str = "") -> set[str]:
    """Return the paths that a process has open."""
    folder, found = f"{root}/proc/{pid}/fd", set()
    with contextlib.suppress(OSError):
        for name in os.listdir(folder):
            with contextlib.suppress(OSError):
                found.add(os.readlink(f"{folder}/{name}"))
    return found


def describe_held_locks(root: str = "") -> list[str]:
    """Describe the processes that hold the package managers' locks.

    On btrfs and some overlays, stat(2) gives a different device than the kernel's list of locks. So the open files of
    the lock holders are compared as well.
    """
    held = parse_posix_locks(read_stripped(f"{root}/proc/locks") + "\n")
    files = {pid: list_open_files(pid, root) for pid in set(held.values())}
    found = []
    for path in LOCKS:
        try:
            info = os.stat(root + path)
        except OSError:
            continue
        pid = held.get((os.major(info.st_dev), os.minor(info.st_dev), info.st_ino), "")
        pid = pid or next((one for one in sorted(files) if path in files[one]), "")
        found += [f"{describe_pid(pid, root) or 'pid ' + pid} holds {path}"] if pid else []
    for path in PIDS:
        pid = read_stripped(root + path)
        name = describe_pid(pid, root) if parse_decimal(pid) else ""
        found += [f"{name} holds {path}"] if name else []
    return found


def describe_first_boot(root: str = "") -> list[str]:
    """Return whether cloud-init is still running, as text.

    Its last stage writes result.json (its documentation, "Boot stages").
    """
    there = os.path.exists(root + "/run/cloud-init/enabled")
    done = os.path.exists(root + "/run/cloud-init/result.json")
    return ["cloud-init has not ended"] if there and not done else []


def describe_running_updates(ask: Runner = run_command) -> list[str]:
    """Return the units of the system's own updates that run now."""
    rc, out = ask(systemctl.build_show_command(("Id", "ActiveState"), UNITS))
    blocks = systemctl.parse_unit_blocks(out) if rc == 0 else []
    working = ("activating", "reloading")
    return [f"{one['Id']} runs" for one in blocks if one.get("ActiveState") in working]


def describe_busy_node(root: str = "", ask: Runner = run_command) -> list[str]:
    """Describe all programs that work on the node, [] if it is idle."""
    return describe_first_boot(root) + describe_running_updates(ask) + describe_held_locks(root)


def wait_until_idle(
    seconds: float,
    observe: Callable[[], Sequence[str]],
    pause: Callable[[float], None] = time.sleep,
) -> tuple[list[str], float]:
    """Wait until *observe* has found nothing for a while. Returns (the rest, seconds waited)."""
    begun, calm = time.monotonic(), 0
    found = list(observe())
    while time.monotonic() - begun < seconds:
        calm = 0 if found else calm + 1
        if calm >= CALM_POLLS:
            return [], time.monotonic() - begun
        pause(POLL_SECONDS)
        found = list(observe())
    return found, time.monotonic() - begun
