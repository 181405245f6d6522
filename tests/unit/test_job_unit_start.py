"""The start of the unit of jobs: what systemd reports about it, and the ranks that run as it."""

from __future__ import annotations

import os
import pwd
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from ansible.module_utils.fullmesh import detach
from ansible.module_utils.fullmesh.probe import ranks, unit_ranks
from ansible.module_utils.fullmesh.survey import job_unit_start
from test_ladder_ranks import WELL, collect_results, make_input

ENTRY = "{{ path={0} ; argv[]={0} ; ignore_errors=no ; start_time=[x] ; pid=9 ; code={1} ; status={2} }}"
TRUE = "ExecStartPre=" + ENTRY.format("/bin/true", "exited", 0)


def show_unit(*lines: str, result: str = "exit-code", code: int = 0, status: int = 0) -> str:
    """The output of systemctl show about a unit that has ended."""
    held = [f"Result={result}", f"ExecMainCode={code}", f"ExecMainStatus={status}", *lines]
    return "\n".join(held) + "\n"


# recorded on lab nodes (systemd 252), shortened
ENDS = (
    (
        show_unit(TRUE, "ExecStartPre=" + ENTRY.format("/bin/false", "exited", 1)),
        "Starting fullmesh-job@x.service - Fullmesh job x...\nfullmesh-job@x.service: Failed with result 'exit-code'.",
        "ExecStartPre=/bin/false ended with status 1",
    ),
    (
        show_unit("ExecStartPre=" + ENTRY.format("/bin/true", "exited", 217)),
        "fullmesh-job@x.service: Failed at step USER spawning /bin/true: No such process",
        "ExecStartPre=/bin/true ended with status 217 (USER of systemd): "
        "fullmesh-job@x.service: Failed at step USER spawning /bin/true: No such process",
    ),
    (
        show_unit(
            "ExecStartPre=" + ENTRY.format("/bin/true", "killed", "15/TERM"), result="timeout"
        ),
        "start-pre operation timed out. Terminating.",
        "ExecStartPre=/bin/true was ended by signal 15: start-pre operation timed out. Terminating.",
    ),
    (
        show_unit(TRUE, code=1, status=1),
        "fullmesh: a job cannot listen and connect: timed out\nfullmesh-job@x.service: Failed with result 'exit-code'.",
        "the job ended with status 1: fullmesh: a job cannot listen and connect: timed out",
    ),
    (
        show_unit(TRUE, code=1, status=2),
        "[LA-103] torchrun cannot be run.\nError: another line",
        "the job ended with status 2: [LA-103] torchrun cannot be run.",
    ),
    (show_unit(TRUE, result="oom-kill", code=2, status=9), "", "the job was ended by signal 9"),
    (
        show_unit(result="resources"),
        "fullmesh-job@x.service: Failed to run 'start-pre' task: No such file or directory",
        "its result is resources: "
        "fullmesh-job@x.service: Failed to run 'start-pre' task: No such file or directory",
    ),
    (
        show_unit("ExecCondition=" + ENTRY.format("/bin/false", "(null)", "0/0"), result="success"),
        "fullmesh-job@x.service: Skipped due to 'exec-condition'.",
        "ExecCondition=/bin/false did not succeed",
    ),
    (show_unit(TRUE, result="success"), "Started fullmesh-job@x.service - Fullmesh job x.", ""),
    ("", "", ""),
)


@pytest.mark.parametrize(("said", "journal", "text"), ENDS)
def test_the_failed_command_of_a_unit_is_named(said: str, journal: str, text: str) -> None:
    assert job_unit_start.describe_unit_failure(said, journal) == text


SYSTEMCTL = """#!/bin/sh
echo "$@" >> {folder}/calls
case $1 in
    start)
        unit=${{4#fullmesh-job@}}
        set -a
        . {folder}/jobs/${{unit%.service}}.env
        set +a
        RUN
        ;;
    list-units) cat {folder}/active 2>/dev/null ;;
    show) cat {folder}/shown ;;
esac
"""
RANK = '{python} "$FULLMESH_SCRIPT" $FULLMESH_ARGS'


@pytest.fixture
def node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A node with stand-ins of systemctl and journalctl, and this account as that of jobs."""
    (tmp_path / "jobs").mkdir()
    (tmp_path / "launcher").write_text("torchrun=/venv/bin/torchrun\n--rank) mode=rank ;;\n")
    (tmp_path / "shown").write_text(show_unit(TRUE, code=1, status=3))
    (tmp_path / "journal").write_text("fullmesh: a job cannot fly\n")
    (tmp_path / "journalctl").write_text(f"#!/bin/sh\ncat {tmp_path}/journal\n")
    (tmp_path / "journalctl").chmod(0o755)
    me = pwd.getpwuid(os.geteuid())
    monkeypatch.setattr(job_unit_start, "JOBS", str(tmp_path / "jobs"))
    monkeypatch.setattr(job_unit_start, "RUN", str(tmp_path))
    monkeypatch.setattr(job_unit_start, "SYSTEMD", str(tmp_path))
    monkeypatch.setattr(job_unit_start, "LAUNCHER", str(tmp_path / "launcher"))
    monkeypatch.setattr(unit_ranks, "LAUNCHER", str(tmp_path / "launcher"))
    monkeypatch.setattr(job_unit_start, "find_unit_accounts", lambda: iter(["jobs"]))
    monkeypatch.setattr(job_unit_start, "find_account_entry", lambda _name: me)
    monkeypatch.setattr(job_unit_start.os, "geteuid", lambda: 0)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    write_systemctl(tmp_path, "exit 1")
    return tmp_path


def write_systemctl(folder: Path, run: str) -> None:
    """Let ``systemctl start`` run this."""
    text = SYSTEMCTL.format(folder=folder).replace("RUN", run)
    (folder / "systemctl").write_text(text)
    (folder / "systemctl").chmod(0o755)


def list_left(folder: Path) -> list[str]:
    """Files that a start left behind."""
    return [one.name for one in (*(folder / "jobs").iterdir(), *folder.glob("fullmesh-look-*"))]


PYTHON_C = f'exec {sys.executable} -B -S -c "$FULLMESH_SCRIPT" $FULLMESH_ARGS'


def start_program(folder: Path, before: str) -> str:
    """Start the unit's program after shell commands, and return its error."""
    own = f"cd {folder}; export FULLMESH_ADDRESS=127.0.0.1; {before}"
    write_systemctl(folder, f"{own}\n{PYTHON_C} 2>{folder}/journal")
    said: Any = job_unit_start.survey_job_unit_start()
    assert isinstance(said["error"], str)
    return said["error"]


@pytest.mark.parametrize(
    "before",
    ["", "export TORCH_DISTRIBUTED_DEBUG=detail GLOO_DEVICE_TRANSPORT=TCP PET_STANDALONE=0"],
)
def test_the_first_steps_in_the_unit_are_quiet_on_a_healthy_node(node: Path, before: str) -> None:
    assert start_program(node, before) == ""
    assert list_left(node) == []
    assert "--rank)" in (node / "launcher").read_text()
    assert "reset-failed" not in (node / "calls").read_text()


REFUSE = 'echo "$@" | grep -qx "[-]-dry-run job.py" && [ -z "$FULLMESH_WATCH" ] || { echo "[LA-106]" >&2; exit 2; }'


@pytest.mark.parametrize(
    ("before", "error"),
    [
        # the journal is a file, too
        ("ulimit -f 0", ""),
        ("PATH=/nosuch", "start programs: id is not in PATH=/nosuch"),
        (
            "mkdir -p torch; touch torch/__init__.py; export PYTHONPATH=$PWD",
            "torch is another module",
        ),
        ("export TMPDIR=/nosuch", "write a temporary file"),
        ("export FULLMESH_WATCH=soon", "start the launcher: [LA-106]"),
        ("export TORCH_DISTRIBUTED_DEBUG=LOUD", "LOUD is not one of OFF, INFO, DETAIL"),
        ("export TORCH_DISTRIBUTED_DEBUG=", "TORCH_DISTRIBUTED_DEBUG= is not one of OFF"),
        ("export GLOO_DEVICE_TRANSPORT=tcp", "tcp is not one of TCP"),
        ("export PET_STANDALONE=1", "PET_STANDALONE=1 is an option of torchrun for every job"),
    ],
)
def test_a_step_that_the_unit_forbids_is_named(node: Path, before: str, error: str) -> None:
    launcher = node / "launcher"
    launcher.write_text(f"#!/bin/sh\n# torchrun=/venv/bin/torchrun --rank)\n{REFUSE}\n")
    launcher.chmod(0o755)
    told = start_program(node, before)
    assert told.startswith("the job ended with status 3")
    assert error in told
    assert list_left(node) == []
    assert "reset-failed" in (node / "calls").read_text()


def test_a_unit_that_hangs_is_killed_and_reported_as_not_found_out(
    node: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(job_unit_start, "SECONDS", 0.2)
    monkeypatch.setattr(job_unit_start, "QUERY_SECONDS", 0.5)
    write_systemctl(node, "exec sleep 60")
    assert job_unit_start.survey_job_unit_start() == (
        None,
        "the start of fullmesh-job@ did not end in time",
    )
    assert "kill -s KILL" in (node / "calls").read_text()
    assert list_left(node) == []


def test_the_unit_is_not_started_next_to_a_job_or_with_an_old_launcher(node: Path) -> None:
    (node / "active").write_text("fullmesh-job@a.service loaded active running\n")
    assert job_unit_start.survey_job_unit_start() is None
    (node / "active").unlink()
    (node / "launcher").write_text("--dry-run) dry=1 ;;\n")
    assert job_unit_start.survey_job_unit_start() is None
    assert " start" not in (node / "calls").read_text()


def test_files_of_killed_starts_are_removed_after_an_hour(node: Path) -> None:
    for name, age in (("fullmesh-look-1.env", 4000), ("fullmesh-look-2.env", 10), ("a.env", 4000)):
        (node / "jobs" / name).write_text("")
        os.utime(node / "jobs" / name, times=(time.time() - age,) * 2)
    job_unit_start.remove_old_files("fullmesh-look-")
    assert sorted(one.name for one in (node / "jobs").iterdir()) == ["a.env", "fullmesh-look-2.env"]


def choose_this_account(monkeypatch: pytest.MonkeyPatch) -> None:
    """The ranks of a run start as the unit, as this account."""
    me = pwd.getpwuid(os.getuid())
    monkeypatch.setattr(ranks, "choose_unit_account", lambda _python: me)
    monkeypatch.setattr(ranks, "refuse_unreadable", lambda *_args, **_more: None)


def test_ranks_run_as_the_unit_and_their_account_is_not_cleaned_up(
    node: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    choose_this_account(monkeypatch)
    write_systemctl(node, f"exec {RANK.format(python=sys.executable)}")
    base = node / "run"
    base.mkdir()
    detach.make_run_directory("run1", str(base))
    ranks.start_ranks(make_input(script=WELL), str(base))
    found = collect_results(base)
    assert found["ended"]["codes"] == {"3": 0, "4": 0}
    assert "error" not in found["ended"]
    assert [found["ranks"][one]["events"][0]["step"] for one in "34"] == ["3", "4"]
    assert list_left(node) == []


def test_a_unit_that_starts_no_rank_is_a_coded_refusal(
    node: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    choose_this_account(monkeypatch)
    base = node / "run"
    base.mkdir()
    detach.make_run_directory("run1", str(base))
    ranks.start_ranks(make_input(), str(base))
    ended = collect_results(base)["ended"]
    assert ended["code"] == "VC-325"
    assert ended["error"].endswith("the job ended with status 3: fullmesh: a job cannot fly")
    assert 3 in ended["codes"].values()


@pytest.mark.parametrize(
    ("size", "names"),
    [
        ("2", {"WORLD_SIZE", "OMP_NUM_THREADS"}),
        ("4", {"WORLD_SIZE", "OMP_NUM_THREADS", "MASTER_ADDR"}),
    ],
)
def test_ranks_of_the_whole_cluster_take_the_addresses_of_the_environment_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, size: str, names: set[str]
) -> None:
    (tmp_path / "env").write_text("MASTER_ADDR=10.0.0.1\nWORLD_SIZE=2\n")
    monkeypatch.setattr(unit_ranks, "ENV_FILE", str(tmp_path / "env"))
    planned = {"MASTER_ADDR": "10.0.0.9", "WORLD_SIZE": size, "OMP_NUM_THREADS": "1"}
    assert unit_ranks.select_unit_variables(planned).keys() == names


def test_only_the_launchers_own_interpreter_runs_as_the_unit(
    node: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(unit_ranks, "find_account_entry", ACCOUNTS.get)
    (node / "shown").write_text("User=jobs\n")
    assert unit_ranks.choose_unit_account("/srv/conda/bin/python") is None
    found = unit_ranks.choose_unit_account("/venv/bin/python")
    assert found
    assert found.pw_name == "jobs"
    (node / "shown").write_text("User=nosuch\n")
    with pytest.raises(unit_ranks.RankRefusedError, match="User=nosuch") as refused:
        unit_ranks.choose_unit_account("/venv/bin/python")
    assert refused.value.code == "VC-325"


ACCOUNTS = {"jobs": pwd.struct_passwd(("jobs", "x", 1600, 1600, "", "/", "/bin/sh"))}
