# Copyright (c) the Fullmesh contributors
# SPDX-License-Identifier: MIT
"""Start the ranks of a test job as jobs start: as the unit fullmesh-job@, with its launcher and environment.

Runs on nodes: standard library only.
"""

from __future__ import annotations

import os
import re
import signal
from typing import TYPE_CHECKING

from ..foreign_text import parse_decimal
from ..survey.job_accounts import find_account_entry
from ..survey.job_start_program import LAUNCHER
from ..survey.job_unit import UNIT
from ..survey.job_unit_start import (
    LAUNCHER_MOST,
    UnitStart,
    can_start_unit,
    is_job_active,
    remove_old_files,
    run_quietly,
)
from ..tools import systemctl
from .unprivileged import RankRefusedError

if TYPE_CHECKING:
    import pwd
    from collections.abc import Mapping

PREFIX = "fullmesh-verify-"
ENV_FILE = "/etc/fullmesh/env"
CODE = "VC-325"
TORCHRUN = re.compile(r"^torchrun=(/\S{1,300})/torchrun$", re.MULTILINE)
# Variables that torchrun sets for each rank, and those of the verification.
OF_RANKS = ("WORLD_SIZE", "LOCAL_WORLD_SIZE", "OMP_NUM_THREADS", "PYTHONWARNINGS")


def read_launcher_python() -> str:
    """Return the interpreter that the launcher starts, or ""."""
    try:
        with open(LAUNCHER, encoding="utf-8", errors="replace") as stream:
            found = TORCHRUN.search(stream.read(LAUNCHER_MOST))
    except OSError:
        return ""
    return f"{found.group(1)}/python" if found else ""


def choose_unit_account(python: str) -> pwd.struct_passwd | None:
    """Return the account of job units if the ranks can start as one. None if jobs do not start in this way here.

    Args:
        python: the interpreter of the ranks.

    Raises:
        RankRefusedError: the unit's account does not exist.
    """
    if not can_start_unit() or read_launcher_python() != python or is_job_active():
        return None
    shown = run_quietly(systemctl.build_show_command(["User"], [UNIT]))
    name = systemctl.parse_properties(shown).get("User", "")
    account = find_account_entry(name) if name else None
    if name and account is None:
        fix = "systemctl cat fullmesh-job@ shows the file with User="
        raise RankRefusedError(
            CODE, f"the unit fullmesh-job@ has User={name}, which is no account", fix
        )
    return account if account and account.pw_uid else None


def read_file_value(name: str) -> str:
    """Return the value of a variable in the node's environment file, or ""."""
    try:
        with open(ENV_FILE, encoding="utf-8", errors="replace") as stream:
            found = [
                line.rstrip("\n").partition("=")[2]
                for line in stream
                if line.startswith(f"{name}=")
            ]
    except OSError:
        return ""
    return found[-1] if found else ""


def select_unit_variables(planned: Mapping[str, object]) -> dict[str, str]:
    """Select the variables that the ranks get in addition to those of jobs.

    A job of fewer nodes than the plan (--bisect) has another master, so it gets all of them.

    Args:
        planned: the environment of the ranks, from the cluster plan.
    """
    whole = str(planned.get("WORLD_SIZE", "")) == read_file_value("WORLD_SIZE")
    return {name: str(value) for name, value in planned.items() if not whole or name in OF_RANKS}


class UnitRank:
    """A rank that runs as the unit. It has the part of subprocess.Popen that its supervisor uses.

    Attributes:
        returncode: as of Popen, None while it runs.
        error: why the unit failed, "" if it did not.
    """

    def __init__(self, instance: str, variables: Mapping[str, str]) -> None:
        self.start = UnitStart(PREFIX + instance, variables)
        self.returncode: int | None = None
        self.error = self.log = ""
        self.start.begin()

    def poll(self) -> int | None:
        """Return the exit status, or None while it runs."""
        if self.returncode is None and self.start.poll() is not None:
            self.note_end()
        return self.returncode

    def note_end(self) -> None:
        """Read the exit status and the output of a rank that has ended, and the reason of a failure."""
        self.returncode = 0
        if self.start.poll():
            names = ["ExecMainCode", "ExecMainStatus"]
            shown = run_quietly(systemctl.build_show_command(names, [self.start.unit]))
            said = systemctl.parse_properties(shown)
            status = parse_decimal(said.get("ExecMainStatus", ""), 1 << 16) or 1
            self.returncode = status if said.get("ExecMainCode", "1") in ("0", "1") else -status
            self.error, self.log = self.start.describe_failure(), self.start.read_journal()
        self.start.clean_up()

    def describe_silence(self) -> str:
        """Describe why the rank ended without output."""
        return self.error or self.start.describe_failure() or "it ended without output"

    def send_signal(self, number: int) -> None:
        """End the rank. SIGKILL is the only signal that its supervisor sends."""
        if number == signal.SIGKILL:
            self.start.kill()

    def wait(self) -> int:
        """Wait for the end of the unit, which was killed."""
        self.start.wait(10.0)
        self.log = self.log or self.start.read_journal()
        self.start.clean_up()
        self.returncode = -signal.SIGKILL if self.returncode is None else self.returncode
        return self.returncode


def start_unit_rank(
    run: str, program: list[str], rank: tuple[int, int], planned: Mapping[str, object], scratch: str
) -> UnitRank:
    """Start one rank as the unit.

    Args:
        run: the name of the run.
        program: its file, settings and events.
        rank: global and local.
        planned: the environment of the ranks, from the cluster plan.
        scratch: a folder for its files.
    """
    variables = {
        **select_unit_variables(planned),
        "RANK": str(rank[0]),
        "LOCAL_RANK": str(rank[1]),
        "FULLMESH_SUPERVISOR": str(os.getpid()),
        "TORCHINDUCTOR_CACHE_DIR": scratch,
        "FULLMESH_OPTIONS": "--rank -u",
        "FULLMESH_SCRIPT": program[0],
        "FULLMESH_ARGS": " ".join(program[1:]),
    }
    remove_old_files(PREFIX)
    return UnitRank(f"{run}-{rank[0]}", variables)
