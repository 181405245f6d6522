"""watch: the job's process, its signals and its end."""

from __future__ import annotations

import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import fullmesh_watch
import pytest
from hang_ranks import HOOK, job_variables, recorded_rank
from watch_job import JOB, build_environment, free_port

from fullmesh.hang.recorder import read_rank_file
from fullmesh.settings import ROOT

SCRIPT = ROOT / "node_programs/fullmesh_watch.py"


def run_watch(*arguments: str, **more: Any) -> subprocess.CompletedProcess[str]:
    environment = more.pop("env", build_environment())
    return subprocess.run(
        [sys.executable, str(SCRIPT), "--plan", "{}", *arguments],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        env=environment,
        **more,
    )


def test_automatic_ranks_come_from_the_saved_plan() -> None:
    inline = {
        "nodes": [
            {"name": "a", "first_rank": 0, "local_ranks": 1, "auto": True},
            {"name": "b", "first_rank": 1, "local_ranks": 2},
            {"name": "new", "first_rank": 3, "local_ranks": 1, "auto": True},
        ]
    }
    saved_plan = {
        "nodes": [{"name": name, "first_rank": 8, "local_ranks": 8} for name in ("a", "b")]
    }
    found = fullmesh_watch.add_known_ranks(inline, saved_plan)["nodes"]
    assert [(one["name"], one["local_ranks"]) for one in found] == [("a", 8), ("b", 2), ("new", 1)]
    assert not any("auto" in one for one in found)


@pytest.mark.parametrize("code", [0, 1, 3, 77])
def test_exit_code_and_output_are_those_of_the_job(code: int) -> None:
    done = run_watch("--", "sh", "-c", f"echo out; echo err >&2; exit {code}")
    assert (done.returncode, done.stdout, done.stderr) == (code, "out\n", "err\n")


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSEGV, signal.SIGTERM])
def test_signal_that_killed_the_job_is_passed_on(number: signal.Signals) -> None:
    done = run_watch("--", "sh", "-c", f"kill -{number.value} $$")
    assert done.returncode == -number


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1])
def test_signals_reach_the_job(number: signal.Signals, tmp_path: Path) -> None:
    script = (
        "import signal, sys\n"
        f"signal.signal({int(number)}, lambda *_: sys.exit(40))\n"
        "print('ready', flush=True)\nsignal.pause()\n"
    )
    command = [sys.executable, str(SCRIPT), "--plan", "{}", "--", sys.executable, "-c", script]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, text=True, start_new_session=True
    ) as job:
        assert job.stdout is not None
        assert job.stdout.readline() == "ready\n"
        job.send_signal(number)
        assert job.wait(60) == 40


def test_job_reads_standard_input() -> None:
    done = run_watch("--", "cat", input="hello")
    assert done.stdout == "hello"


@pytest.mark.parametrize(
    ("arguments", "code", "exit_code"),
    [
        ([], "WA-105", 2),
        (["--within", "0", "--", "true"], "WA-105", 2),
        (["--kill-after", "-1", "--", "true"], "WA-105", 2),
        (["--on-hang", "stop", "--stalled", "0", "--", "true"], "WA-105", 2),
        (["--on-hang", "restart", "--", "true"], "WA-112", 2),
        (["--", "/no/such/program"], "WA-106", 127),
        (["--", "/etc/passwd"], "WA-106", 126),
    ],
)
def test_invalid_commands_are_reported(arguments: list[str], code: str, exit_code: int) -> None:
    done = run_watch(*arguments)
    assert done.returncode == exit_code
    assert done.stderr.startswith(f"[{code}]")


def test_incomplete_job_is_reported_and_ended() -> None:
    job_environment = build_environment(
        RANK="0", WORLD_SIZE="2", MASTER_ADDR="127.0.0.1", MASTER_PORT=str(free_port())
    )
    done = run_watch(
        "--within", "1", "--kill-after", "1", "--", sys.executable, "-c", JOB, env=job_environment
    )
    assert done.returncode == 1
    assert "[WA-101] at least 2 of 2 ranks (connected: nobody)" in done.stderr
    assert "[WA-108]" in done.stderr


def test_rank_without_its_store_is_reported() -> None:
    port = str(free_port())
    job_environment = build_environment(
        RANK="1", WORLD_SIZE="2", MASTER_ADDR="127.0.0.1", MASTER_PORT=port
    )
    done = run_watch(
        "--within", "1", "--kill-after", "1", "--", sys.executable, "-c", JOB, env=job_environment
    )
    assert done.returncode == 1
    assert f"has not reached 127.0.0.1:{port}" in done.stderr
    assert "[WA-102] rank 1 (" in done.stderr


@pytest.mark.parametrize("place", ["given", "new"])
def test_a_hung_job_is_written_to_files_and_ended(tmp_path: Path, place: str) -> None:
    (tmp_path / "hook").mkdir()
    shutil.copy(HOOK, tmp_path / "hook/sitecustomize.py")
    job_environment = build_environment(
        RANK="1", PYTHONPATH=str(tmp_path / "hook"), **job_variables()
    )
    options = ["--dump-to", str(tmp_path / "given")] if place == "given" else []
    script = recorded_rank(1) + "import time\ntime.sleep(600)\n"
    call = ["--stalled", "1", "--on-hang", "stop", *options, "--", sys.executable, "-c", script]
    done = run_watch(*call, env=job_environment, cwd=tmp_path)
    assert done.returncode == 1
    assert "[WA-113] The job hangs, so it is ended (--on-hang stop)" in done.stderr
    (path,) = tmp_path.glob("given/*" if place == "given" else "fullmesh-hang-*/*")
    assert f"the state of the ranks here is in {path.parent}" in done.stderr
    assert read_rank_file(path.read_bytes(), 0)["rank"] == 1
    assert path.name == "rank1.json"


def test_failed_dump_does_not_keep_the_job_running(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").write_text("")
    options = ["--on-hang", "stop", "--dump-to", str(tmp_path / "file/in"), "--", "true"]
    job = fullmesh_watch.JobWatch(fullmesh_watch.parse_arguments(options), {})
    job.respond_to_hang([])
    assert "[WA-115] The state of the ranks cannot be written to" in capsys.readouterr().err
    assert "[WA-113]" in job.find_reason_to_end()
    job.tell_progress("moving", {"host": "a", "jobs": [], "ranks": []})
    assert job.find_reason_to_end() == ""


@pytest.mark.parametrize("has_signals", [False, True])
def test_the_end_of_the_parent_ends_the_job(has_signals: bool) -> None:
    """It also ends while signals arrive more often than the checks run. A helper of the watch that ends sends one."""
    command = [sys.executable, str(SCRIPT), "--plan", "{}", "--within", "4", "--leash", "--"]
    job = subprocess.Popen(
        [*command, "sh", "-c", "echo $$; exec sleep 600"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert job.stdout is not None
    pid = int(job.stdout.readline())
    assert job.stdin is not None
    job.stdin.close()
    ends = time.monotonic() + 60
    while has_signals and job.poll() is None and time.monotonic() < ends:
        job.send_signal(signal.SIGCHLD)
        time.sleep(0.05)
    assert job.wait(0.1 if has_signals else 60) == -signal.SIGTERM
    job.stdout.close()
    assert not Path(f"/proc/{pid}").exists()


def test_job_that_ignores_sigterm_is_killed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fullmesh_watch, "GRACE", 0.5)
    args = fullmesh_watch.parse_arguments(["--within", "1", "--", "x"])
    job = fullmesh_watch.JobWatch(args, {})
    ignoring_script = "trap '' TERM; sleep 600 & echo $!; wait; wait"
    with subprocess.Popen(
        ["bash", "-c", ignoring_script], stdout=subprocess.PIPE, text=True
    ) as make_process:
        assert make_process.stdout is not None
        child = int(make_process.stdout.readline())
        fullmesh_watch.end_job(job, make_process, signal.SIGTERM)
        assert make_process.poll() is None
        time.sleep(0.7)
        fullmesh_watch.end_job(job, make_process, signal.SIGKILL)
        assert make_process.wait(30) == -signal.SIGKILL
    assert "State:\tS" not in _status(child)


def _status(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return ""
