# Copyright (c) the Fullmesh contributors
# SPDX-License-Identifier: MIT
"""Return the limits of a login of the job account. The probe itself may have others.

``su`` opens a session with the node's PAM stack (pam_limits(8): /etc/security/limits.conf, limits.d) without running a
profile. It starts with sshd's limits, as an ssh login does. Standard library only.
"""

from __future__ import annotations

import os
import re
import resource
import subprocess
from typing import TYPE_CHECKING

from ..survey.job_accounts import LOGIN_ENVIRONMENT

if TYPE_CHECKING:
    import pwd

    from ..schema.ladder import LoginLimits

SECONDS = 2.0  # a directory service that does not answer must not hold the others up
ENDLESS = -1
ENVIRONMENT = LOGIN_ENVIRONMENT
# A line of /proc/PID/limits. The soft limit counts, until a process raises it.
ROW = re.compile(r"^(Max [a-z ]+?) {2,}(\d+|unlimited) +(\d+|unlimited)", re.MULTILINE)
FILES, MEMORY, PROCESSES = "Max open files", "Max locked memory", "Max processes"
KINDS = {
    FILES: resource.RLIMIT_NOFILE,
    MEMORY: resource.RLIMIT_MEMLOCK,
    PROCESSES: resource.RLIMIT_NPROC,
}


def parse_process_limits(text: str) -> dict[str, tuple[int, int]]:
    """Parse /proc/PID/limits (proc(5)) into the soft and hard limit of each kind."""
    return {
        name: (
            ENDLESS if soft == "unlimited" else int(soft),
            ENDLESS if hard == "unlimited" else int(hard),
        )
        for name, soft, hard in ROW.findall(text)
    }


def read_login_file(path: str) -> str:
    """Return a small file's text, or ""."""
    try:
        with open(path, errors="replace") as stream:
            return stream.read()
    except OSError:
        return ""


def read_parent_process(pid: int) -> tuple[int, str]:
    """Return a process's parent and its own name."""
    text = read_login_file(f"/proc/{pid}/stat")
    name, _, rest = text.partition("(")[2].rpartition(")")
    words = rest.split()
    return (int(words[1]), name) if len(words) > 1 else (0, "")


def read_sshd_limits() -> dict[str, tuple[int, int]]:
    """Return the limits of the sshd that carries this call, or {} without ssh."""
    pid, found = os.getpid(), 0
    while pid > 1:
        above, name = read_parent_process(pid)
        if name.startswith("sshd"):
            found = pid  # the last one is the daemon itself, its children have had their session's limits already
        pid = above
    return parse_process_limits(read_login_file(f"/proc/{found}/limits")) if found else {}


def read_login_limits(who: pwd.struct_passwd) -> LoginLimits | None:
    """Return the limits of a login of the account, or None if a login is not possible.

    Args:
        who: the account. Without an entry in passwd it cannot log in.
    """
    base = read_sshd_limits()

    def begin() -> None:
        for name, kind in KINDS.items():
            if name in base:
                resource.setrlimit(kind, base[name])

    try:
        done = subprocess.run(
            ["su", "-s", "/bin/sh", who.pw_name, "-c", "cat /proc/self/limits"],
            check=False,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            timeout=SECONDS,
            env=ENVIRONMENT,
            preexec_fn=begin,
        )
    except (OSError, ValueError, subprocess.SubprocessError):
        return None
    found = parse_process_limits(done.stdout.decode("utf-8", "replace"))
    if done.returncode or not {FILES, MEMORY, PROCESSES} <= found.keys():
        return None
    return {
        "nofile": found[FILES][0],
        "memlock": found[MEMORY][0],
        "processes": found[PROCESSES][0],
    }
