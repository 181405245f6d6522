"""Read the restrictions of systemd for ``fullmesh-job@``, including all drop-ins.

Runs on nodes: standard library only.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
from typing import TYPE_CHECKING

from ..files import split_words
from ..foreign_text import parse_decimal
from ..tools import systemctl
from .job import parse_assignments
from .job_accounts import find_account_entry
from .net import read_kernel_file

if TYPE_CHECKING:
    from ..schema.survey import JobUnit

# An unused instance: systemd answers from the template and its drop-ins, and starts nothing.
INSTANCE = "fullmesh-look"
UNIT = f"fullmesh-job@{INSTANCE}.service"
# Settings that can end or hinder a job, with the value that systemd shows if nothing set them.
NONE = ("", "~", "infinity", "no", "0022")
SETTINGS = (
    *("WorkingDirectory", "RootDirectory", "RootImage", "NetworkNamespacePath"),
    *("InaccessiblePaths", "NoExecPaths", "TemporaryFileSystem", "ReadOnlyPaths", "ProtectHome"),
    *("RestrictNetworkInterfaces", "SocketBindDeny", "UnsetEnvironment", "PrivateDevices"),
    *("LimitNPROC", "LimitAS", "LimitDATA", "LimitFSIZE", "LimitCPU", "LimitSTACK", "UMask"),
    *("MemoryMax", "MemoryHigh", "TasksMax", "RuntimeMaxUSec", "ProtectSystem", "PrivateTmp"),
)
COMMANDS = ("ExecStartPre", "ExecCondition", "ExecStart")
ASKED = (
    *SETTINGS,
    *COMMANDS,
    *("User", "EnvironmentFiles", "SystemCallFilter"),
    *("LoadState", "DropInPaths", "LimitNOFILE", "IPAddressAllow", "IPAddressDeny"),
    *("PrivateNetwork", "RestrictAddressFamilies", "Environment"),
)
# System calls without which no rank connects.
CALLS = frozenset(
    (
        *("socket", "bind", "listen", "accept4", "connect", "setsockopt", "sendmsg", "recvmsg"),
        *("clone", "clone3", "execve", "mmap", "openat", "futex", "epoll_ctl", "pipe2"),
    )
)
JOBS = "/etc/fullmesh/jobs"
BROKEN = ("masked", "bad-setting", "error")
SCRIPT = re.compile(r"^FULLMESH_SCRIPT=['\"]?(/[^'\"\s]{1,300})", re.ASCII | re.MULTILINE)
SECONDS = 5
ENDLESS = -1
VALUE_MOST, PARTS_MOST, JOBS_MOST = 500, 20, 64


def parse_unit_environment(text: str) -> dict[str, str]:
    """Parse Environment= as ``systemctl show`` prints it (``A=b "C=d e"``), for names that matter to a job."""
    try:
        words = shlex.split(text)
    except ValueError:
        words = split_words(text)
    return {name: value for word in words for name, value in parse_assignments(word).items()}


def list_blocked_calls(text: str) -> list[str]:
    """Return the system calls of ranks that SystemCallFilter= forbids."""
    names = set(split_words(text.lstrip("~")))
    return sorted(CALLS & names if text.startswith("~") else CALLS - names if names else ())


def list_missing_parts(lines: list[tuple[str, str]]) -> list[str]:
    """Return the settings of a unit that name a file or an account that this node does not have.

    Args:
        lines: names and values, as ``systemctl show`` prints them.
    """
    found = []
    for name, value in lines:
        path = ""
        if name == "EnvironmentFiles" and "ignore_errors=no" in value:
            path = value.partition(" (")[0]
        elif name in COMMANDS:
            match = re.match(r"\{ path=(\S+) ;", value)
            path = match.group(1) if match else ""
        elif name in ("WorkingDirectory", "RootDirectory", "NetworkNamespacePath"):
            path = value
        elif name == "User" and value and find_account_entry(value) is None:
            found.append(f"User={value}")
        own = os.path.basename(path) == f"{INSTANCE}.env"  # each job has its own
        if path.startswith("/") and not own and not os.path.exists(path):
            found.append(f"{name.rstrip('s')}={path}")
    return found[:PARTS_MOST]


def list_job_scripts() -> list[str]:
    """Return the scripts of the jobs that this node has files of."""
    found: set[str] = set()
    names = sorted(os.listdir(JOBS))[:JOBS_MOST] if os.path.isdir(JOBS) else []
    for name in names:
        found.update(SCRIPT.findall(read_kernel_file(os.path.join(JOBS, name))))
    return sorted(found)


def parse_job_unit(text: str) -> JobUnit | None:
    """Parse the output of ``systemctl show``. None for a missing unit."""
    said = systemctl.parse_properties(text)
    if said.get("LoadState") not in ("loaded", *BROKEN):
        return None
    files = said.get("LimitNOFILE", "")
    lines = [(name, value) for name, _, value in (line.partition("=") for line in text.split("\n"))]
    return {
        "drop_ins": split_words(said.get("DropInPaths", "")),
        "nofile": ENDLESS if (number := parse_decimal(files)) is None else number,
        "allow": split_words(said.get("IPAddressAllow", "")),
        "deny": split_words(said.get("IPAddressDeny", "")),
        "own_network": said.get("PrivateNetwork") == "yes",
        "families": said.get("RestrictAddressFamilies", ""),
        "environment": parse_unit_environment(said.get("Environment", "")),
        "settings": {
            name: value[:VALUE_MOST]
            for name in SETTINGS
            if (value := said.get(name, "")) not in NONE
        },
        "blocked": list_blocked_calls(said.get("SystemCallFilter", "")),
        "missing": list_missing_parts(lines),
        "scripts": list_job_scripts(),
        "load": said["LoadState"],
    }


def survey_job_unit() -> JobUnit | None:
    """Query systemd. None without systemd or the unit."""
    done = subprocess.run(
        systemctl.build_show_command(ASKED, [UNIT]),
        check=False,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        timeout=SECONDS,
    )
    return parse_job_unit(done.stdout.decode("utf-8", "replace"))
