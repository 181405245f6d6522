# Copyright (c) the Fullmesh contributors
# SPDX-License-Identifier: MIT
"""Read the files of NCCL's settings as NCCL does (NCCL, misc/param.cc)."""

from __future__ import annotations

import os
import pwd
import stat
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

OF_ALL, OWN, NAMED = "/etc/nccl.conf", ".nccl.conf", "NCCL_CONF_FILE"
# NCCL's buffers, which cut off longer texts.
NAME_MOST = VALUE_MOST = 1023
LARGEST = 65536


def read_conf_text(path: str) -> str:
    """Return a file's exact text (NCCL keeps trailing spaces in values), or "" if it is missing."""
    try:
        # O_NONBLOCK: a user may put a fifo into a home
        handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    except OSError:
        return ""
    with os.fdopen(handle, "rb") as stream:
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            return ""
        return stream.read(LARGEST).decode("utf-8", "replace")


def parse_nccl_conf(text: str) -> dict[str, str]:
    """Parse NAME=value lines as NCCL does: quotes, spaces and ``export`` stay. The first line of a name wins."""
    found: dict[str, str] = {}
    for line in text.split("\n"):
        name, equals, value = line.rstrip("\r").partition("=")
        if equals and name.startswith("NCCL_"):  # a comment is no such name either
            found.setdefault(name[:NAME_MOST], value[:VALUE_MOST])
    return found


def find_login_home() -> str:
    """Return the home of the login account. root through sudo does not run jobs."""
    try:
        return pwd.getpwnam(os.environ["SUDO_USER"]).pw_dir
    except KeyError:  # no sudo, or an account that no longer is
        return os.environ.get("HOME", "")


def list_nccl_conf_files(environment: Mapping[str, str]) -> list[str]:
    """Return the files for a process with this environment, in NCCL's order. Earlier settings win."""
    named, own = environment.get(NAMED, ""), find_login_home()
    first = named or (os.path.join(own, OWN) if own else "")
    return [path for path in (first, OF_ALL) if path]


def find_unreadable_conf(environment: Mapping[str, str]) -> str:
    """Return the file in *NCCL_CONF_FILE* if it cannot be opened.

    Relative paths depend on the job and are skipped.
    """
    named = environment.get(NAMED, "")
    if not named.startswith(("/", "~")):  # NCCL expands nothing
        return ""
    there = os.path.exists(named) and not os.path.isdir(named)  # /dev/null: no file, and on purpose
    return "" if there else named


def read_nccl_settings(environment: Mapping[str, str]) -> list[tuple[str, dict[str, str]]]:
    """Return the settings of each file in order. NCCL has read *NCCL_CONF_FILE* before, so a file cannot set it."""
    return [
        (
            path,
            {
                name: value
                for name, value in parse_nccl_conf(read_conf_text(path)).items()
                if name != NAMED
            },
        )
        for path in list_nccl_conf_files(environment)
    ]
