# Copyright (c) the Fullmesh contributors
# SPDX-License-Identifier: MIT
"""Find recent denials by SELinux in the journal and the audit log. Standard library only."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ..commands import Runner


ENFORCE = "/sys/fs/selinux/enforce"
# avc:  denied  { read } for pid=1 comm="firewalld" name="x" scontext=u:r:firewalld_t:s0 tcontext=u:object_r:y_t:s0
DENIED = re.compile(
    r"avc:\s+denied\s+\{ (?P<what>[^}]*) \}.* scontext=(?P<who>\S+) tcontext=(?P<whom>\S+)"
)
WHEN = re.compile(r"audit\((\d+)\.\d+:\d+\)")
CLASS = re.compile(r"tclass=(\w+)")


def is_selinux_enforcing(root: str = "") -> bool:
    """Return whether SELinux enforces its denials, rather than only logging them."""
    try:
        with open(root + ENFORCE) as stream:
            return stream.read().strip() == "1"
    except OSError:
        return False


def read_denial_lines(run: Runner, since: float) -> list[str]:
    """Return the log lines since a time. With auditd the journal may have none of them."""
    journal = ["journalctl", "-q", "--no-pager", "-o", "cat", f"--since=@{since:.0f}"]
    found = run([*journal, "_TRANSPORT=audit", "+", "_TRANSPORT=kernel"])[1].splitlines()
    for line in run(["ausearch", "--raw", "-m", "AVC,USER_AVC", "-ts", "recent"])[1].splitlines():
        when = WHEN.search(line)
        if when and float(when.group(1)) >= int(since):
            found.append(line)
    return found


def list_denials(name: str, run: Runner, since: float, root: str = "") -> list[str]:
    """Return sentences about SELinux denials to *name*, or to programs that accessed it.

    Args:
        name: of a program. Its domain is ``name_t``.
        run: runs a command and returns exit code and output.
        since: seconds since 1970.
        root: directory that stands for ``/``.

    Returns:
        Unique sentences such as ``firewalld_t may not read a file of etc_t``. None if SELinux does not enforce.
    """
    found: list[str] = []
    if not is_selinux_enforcing(root):
        return found
    for line in read_denial_lines(run, since):
        denied = DENIED.search(line)
        # a domain may be permissive while the system enforces
        if denied is None or "permissive=1" in line:
            continue
        who, whom = (denied.group(one).split(":")[2] for one in ("who", "whom"))
        if name + "_t" not in (who, whom):
            continue
        kind = CLASS.search(line)
        words = "{} may not {} a {} of {}".format(
            who, ", ".join(denied.group("what").split()), kind.group(1) if kind else "thing", whom
        )
        if words not in found:
            found.append(words)
    return found
