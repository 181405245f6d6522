# Copyright (c) the Fullmesh contributors
# SPDX-License-Identifier: MIT
"""Find the accounts that run jobs on this node. Standard library only."""

from __future__ import annotations

import contextlib
import os
import pwd
import re
from typing import TYPE_CHECKING

from ..foreign_text import parse_decimal

if TYPE_CHECKING:
    from collections.abc import Iterator

UNITS = ("/etc/systemd/system/fullmesh-job@.service",)
USER = re.compile(r"^User=([\w.-]+)\s*$", re.MULTILINE)
UNNAMED_ACCOUNTS = ("nobody", "root")
RANKS_SAY = (b"\0RANK=", b"\0MASTER_ADDR=")
ENVIRONMENT_MOST = 131072
# Where a login begins, with nothing from root's environment: proxy passwords, SUDO_*, variables that sudo or su passed
# on.
LOGIN_ENVIRONMENT = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL": "C"}


def find_account_entry(name: str) -> pwd.struct_passwd | None:
    """Return an account by its name, or by a number without an entry."""
    try:
        return pwd.getpwnam(name)
    except KeyError:
        pass
    number = parse_decimal(name, (1 << 31) - 1)
    if number is not None:
        return pwd.struct_passwd((name, "x", number, number, "", "/", "/bin/sh"))
    return None


def find_unit_accounts() -> Iterator[str]:
    """Yield the accounts of job units."""
    for path in UNITS:
        try:
            with open(path) as stream:
                yield from USER.findall(stream.read())
        except OSError:
            continue


def read_raw_environment(pid: str) -> bytes:
    """Return a process's environment, with a zero before each variable.

    Raises:
        OSError: it is gone or not readable.
    """
    with open(f"/proc/{pid}/environ", "rb") as stream:
        return b"\0" + stream.read(ENVIRONMENT_MOST)


def is_rank_environment(environment: bytes) -> bool:
    """Return whether a process with this environment is a rank of a job."""
    return all(word in environment for word in RANKS_SAY)


def find_rank_accounts() -> Iterator[str]:
    """Yield the accounts of running ranks."""
    for pid in filter(str.isdecimal, os.listdir("/proc")):
        with contextlib.suppress(OSError):
            uid = os.stat("/proc/" + pid).st_uid
            if uid and is_rank_environment(read_raw_environment(pid)):
                yield str(uid)


def find_job_account(named: str) -> pwd.struct_passwd | None:
    """Return the account of jobs: the named one, else that of job units, else that of running ranks.

    None for root.
    """
    for name in (named,) if named else (*find_unit_accounts(), *find_rank_accounts()):
        found = find_account_entry(name)
        if found and found.pw_uid and found.pw_name not in UNNAMED_ACCOUNTS:
            return found
    return None
