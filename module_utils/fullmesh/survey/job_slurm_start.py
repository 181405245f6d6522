# Copyright (c) the Fullmesh contributors
# SPDX-License-Identifier: MIT
"""Run the first second of a job in a job of Slurm, as the account of jobs: a login starts srun on this node.

Slurm then runs its prolog and TaskProlog, and sets the limits and the environment of its tasks. The job lasts for less
than a second and does not wait for a node that other jobs use.

Runs on nodes: standard library only. Output of the job is foreign: it is bounded and validated.
"""

from __future__ import annotations

import base64
import contextlib
import os
import re
import secrets
import shlex
import shutil
import signal
import socket
import time
from typing import TYPE_CHECKING

from ..schema.survey import LOCKED_LEAST
from . import job_start
from .job_accounts import LOGIN_ENVIRONMENT
from .job_start_program import PROGRAM, clean_text, encode_settings
from .job_unit_start import find_telling_line, run_quietly

if TYPE_CHECKING:
    from ..schema.ladder import LadderNodeParams
    from ..schema.survey import JobSlurmStart

SLURM_PATH = "/usr/bin:/usr/local/bin:/opt/slurm/bin"
CONFIGURATIONS = (
    *("/etc/slurm/slurm.conf", "/var/spool/slurmd/conf-cache/slurm.conf"),
    *("/etc/slurm-llnl/slurm.conf", "/usr/local/etc/slurm.conf", "/opt/slurm/etc/slurm.conf"),
)
CONFIGURATION_MOST = LISTED_MOST = 1 << 20
TASK_PROLOG = re.compile(
    r"^\s*TaskProlog\s*=\s*(/\S{1,300})", re.ASCII | re.IGNORECASE | re.MULTILINE
)
NODE_NAME = re.compile(r"[A-Za-z0-9][\w.-]{0,252}", re.ASCII)
# Slurm's answers to a job that it cannot start now, or not with these options.
REFUSED = re.compile(
    r"Unable to allocate resources|Unable to confirm allocation|Immediate execution|[Aa]llocation .{0,40}revoked"
    r"|Required node not available|Invalid (?:account|partition|qos|node name)|[Aa]ccess/permission denied"
)
# A prolog may take as long as Fullmesh's own check of a node, and the survey waits for the job.
SECONDS = 4.0
OPTIONS = (
    *("--immediate=1", "--nodes=1", "--ntasks=1", "--time=1", "--job-name=fullmesh-look"),
    *("--input=none", "--quiet", "--chdir=/"),
)


def find_slurmd(proc: str = "/proc") -> str:
    """Return the command line of this node's slurmd, its words separated by zeros, or "".

    It runs as root. Any account can give a process of its own this name.
    """
    for name in filter(str.isdecimal, os.listdir(proc)):
        with contextlib.suppress(OSError):
            with open(f"{proc}/{name}/comm") as stream:
                if stream.read(32).strip() != "slurmd" or os.fstat(stream.fileno()).st_uid != 0:
                    continue
            with open(f"{proc}/{name}/cmdline", "rb") as raw:
                return raw.read(4096).decode("utf-8", "replace")
    return ""


def find_node_name(listed: str, host: str, address: str) -> str:
    """Return the name that Slurm gives this node, or "".

    Args:
        listed: the output of ``scontrol -o show node``.
        host: the short host name.
        address: the node's in the cluster.
    """
    for line in listed.split("\n"):
        said = dict(word.partition("=")[::2] for word in line.split(" ")[:100])
        if host == said.get("NodeHostName") or address == said.get("NodeAddr"):
            return said.get("NodeName", "")
    return ""


def choose_node_name(command: str, address: str) -> str:
    """Return this node's name in Slurm: of slurmd's option -N, else as Slurm's controller knows the node.

    Args:
        command: of slurmd, its words separated by zeros.
        address: the node's in the cluster.
    """
    words, host = command.split("\0"), socket.gethostname().partition(".")[0]
    named = [after for word, after in zip(words, words[1:]) if word == "-N"]
    scontrol = None if named else shutil.which("scontrol", path=SLURM_PATH)
    listed = run_quietly([scontrol, "-o", "show", "node"]) if scontrol else ""
    name = named[0] if named else find_node_name(listed[:LISTED_MOST], host, address) or host
    return name if NODE_NAME.fullmatch(name) else ""


def find_task_prolog() -> str:
    """Return the program that Slurm runs before each task, and whose output sets variables, or ""."""
    for path in CONFIGURATIONS:
        with contextlib.suppress(OSError), open(path, errors="replace") as stream:
            found = TASK_PROLOG.findall(stream.read(CONFIGURATION_MOST))
            return found[-1] if found else ""
    return ""


def describe_failed_job(errors: str, code: int | None) -> tuple[str, str]:
    """Return why a job of Slurm has no result, as (its failure, why nothing was found out). One of them is ""."""
    lines = [line for line in map(clean_text, errors.splitlines()) if line]
    told = [line for line in lines if line.startswith("srun: ")]
    # srun only adds that the task failed
    last = find_telling_line("\n".join(line for line in lines if line not in told))
    last = last or (told or [f"srun ended with status {code}"])[0]
    if code is None or code in (-signal.SIGKILL, -signal.SIGTERM):
        return "", "a job of srun did not end in time"
    refused = next((line for line in told if REFUSED.search(line)), "")
    return ("", f"Slurm did not start a job: {refused}") if refused else (last, "")


def survey_slurm_start(
    want: LadderNodeParams,
) -> JobSlurmStart | tuple[JobSlurmStart | None, str] | None:
    """Return what the first second of a job of Slurm met. None: this node or account starts no such jobs."""
    who, known = job_start.choose_start_account(want["job_user"])
    srun = shutil.which("srun", path=SLURM_PATH)
    if who is None or not known or os.geteuid() != 0 or not srun or not want["python"]:
        return None
    node = choose_node_name(slurmd, want["address"]) if (slurmd := find_slurmd()) else ""
    if not node:
        return None
    mark, begun, prolog = secrets.token_hex(16), time.monotonic(), find_task_prolog()
    settings = job_start.build_program_settings(want, mark, known)
    settings["locked"], settings["places"] = LOCKED_LEAST, [prolog] if prolog else []
    code = base64.b64encode(PROGRAM.encode()).decode()
    run = [srun, *OPTIONS, f"--nodelist={node}", want["python"], "-c"]
    words = [*run, f'import base64;exec(base64.b64decode("{code}"))', encode_settings(settings)]
    inner = f"exec {' '.join(map(shlex.quote, words))}"
    login = " ".join(map(shlex.quote, [*job_start.choose_login_shell(who), "-c", inner]))
    status, output, raw = job_start.run_session(
        ["su", "-s", "/bin/sh", who.pw_name, "-c", f"ulimit -c 0; exec {login}"],
        LOGIN_ENVIRONMENT,
        seconds=SECONDS,
    )
    parts = output.split(mark.encode())
    said = job_start.read_program_answer(parts[1]) if len(parts) > 1 else None
    start: JobSlurmStart = {
        "error": "",
        "steps": job_start.read_steps((said or {}).get("steps")),
        "task": job_start.read_values((said or {}).get("login")),
        "sources": job_start.read_values((said or {}).get("sources"), job_start.READ),
        "prolog": prolog,
        "seconds": round(time.monotonic() - begun, 3),
    }
    if said is None:
        start["error"], why = describe_failed_job(raw.decode("utf-8", "replace"), status)
        if why:
            return None, why
    return start
