"""Start jobs with ``watch``: it reports a hang with its cause while the job still runs."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
import slow_jobs
from causes.job_faults import STATE
from hang_jobs import START

from fullmesh.settings import ROOT

from .bench import HOME, POLL, READY_SECONDS, TORCHRUN, Bench, Job

STALLED = 10
ENDS = 60  # seconds until a terminated watch has ended its job on all nodes
HUNG = (
    START.replace("range(3)", "range(20)")
    + "ready()\nif rank == 1:\n    time.sleep(1000)\ndist.all_reduce(grads)\n"
)
# It prints how many ranks it has at its end, and the restarted one has one rank.
ELASTIC = HUNG + "print('ended with', dist.get_world_size(), flush=True)\n"
ENDED = "[el1] ended with 1"
DUMPED = re.compile(
    r"the state of all ranks is in (\S+)\. Read it with (\./fullmesh explain-log \S+)"
)


@contextmanager
def watch_job(
    bench: Bench, script: str, *more: str, launcher_options: tuple[str, ...] = ("--static",)
) -> Iterator[subprocess.Popen[str]]:
    """Run a job with the controller's watch."""
    with Job(bench, script, starts=False):
        command = [
            "./fullmesh",
            "watch",
            "--within",
            "120",
            *more,
            "-i",
            str(bench.inventory),
            "--",
        ]
        process = subprocess.Popen(
            [*command, TORCHRUN, *launcher_options, f"{HOME}/train.py"],
            cwd=ROOT,
            env={**os.environ, "PYTHONUNBUFFERED": "1"},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        try:
            yield process
        finally:
            process.send_signal(signal.SIGTERM)
            process.communicate(timeout=ENDS)


def lines_until(process: subprocess.Popen[str], text: str, seconds: float) -> list[str]:
    """Return the output of the watch up to the first line with a text."""
    assert process.stdout is not None
    lines: list[str] = []
    guard = threading.Timer(seconds, process.terminate)
    guard.start()
    for line in process.stdout:
        lines.append(line.rstrip())
        if text in line:
            break
    guard.cancel()
    return lines


@pytest.mark.rest
def test_a_hung_job_is_named_while_it_hangs(bench: Bench) -> None:
    hung_line = Job(bench, HUNG).locate_line("time.sleep(1000)")
    with watch_job(bench, HUNG, "--stalled", str(STALLED)) as process:
        lines = lines_until(process, "[HG-", 200)
        assert process.poll() is None, lines
    stalled_lines = [line for line in lines if "[WA-109]" in line]
    assert any("rank 0" in line and "all_reduce 21 of default_pg" in line for line in stalled_lines)
    assert lines[-1].startswith(
        f"fullmesh watch: [HG-107] rank 1 (ubuntu1) sleeps at {hung_line}, while rank 0"
    )


@pytest.mark.rest
def test_a_slow_rank_is_named_while_its_job_continues(bench: Bench) -> None:
    script = slow_jobs.JOBS["slow_sleep"].script
    job = Job(bench, script)
    # all ranks also sleep for a moment in each step, and a few samples can see the slow rank there
    places = [job.locate_line("time.sleep(0.04)"), job.locate_line("time.sleep(0.01)")]
    with watch_job(bench, script, "--stalled", "20") as process:
        lines = lines_until(process, "[HG-", 300)
        assert process.poll() is None, lines
    assert lines[-1].startswith("fullmesh watch: [HG-163] the job continues, but rank 0 waits ")
    reasons = [f"for rank 1 (ubuntu1). Reason: it sleeps at {place}." for place in places]
    assert any(reason in lines[-1] for reason in reasons)


@pytest.mark.rest
def test_a_healthy_job_under_watch_is_not_reported(bench: Bench) -> None:
    script = slow_jobs.JOBS["healthy_varied"].script
    with watch_job(bench, script, "--stalled", "20") as process:
        lines = lines_until(process, "[HG-", 150)
    # the watch is terminated during the job, and may report that
    assert [line for line in lines if "[HG-" in line or "[WA-109]" in line] == []
    assert list_ranks(bench) == ["0"] * len(bench.nodes), "\n".join(lines)


def read_dump(lines: list[str]) -> str:
    """Return the output of explain-log for the dump that the watch has named."""
    found = next(filter(None, map(DUMPED.search, lines)), None)
    assert found, "\n".join(lines)
    done = subprocess.run(
        found[2].split(), cwd=ROOT, capture_output=True, text=True, check=False, timeout=60
    )
    assert done.returncode == 1, done.stderr
    shutil.rmtree(ROOT / found[1])
    return done.stdout


def list_ranks(bench: Bench) -> list[str]:
    """Return the number of running ranks on each node."""
    return [node.on("pgrep -fc '[t]rain.py' || true") for node in bench.nodes]


@pytest.mark.rest
def test_a_dump_names_the_same_line_and_the_job_goes_on(bench: Bench) -> None:
    hung_line = Job(bench, HUNG).locate_line("time.sleep(1000)")
    with watch_job(bench, HUNG, "--stalled", str(STALLED), "--on-hang", "dump") as process:
        lines = lines_until(process, "the state of all ranks", 200)
        assert f"[HG-107] rank 1 (ubuntu1) sleeps at {hung_line}" in read_dump(lines)
        assert process.poll() is None
        assert "0" not in list_ranks(bench)


@pytest.mark.rest
def test_a_hung_job_is_ended_on_all_nodes(bench: Bench) -> None:
    with watch_job(bench, HUNG, "--stalled", str(STALLED), "--on-hang", "stop") as process:
        lines = lines_until(process, "never said", 200)
        assert process.wait(ENDS) == 1, lines
        assert list_ranks(bench) == ["0", "0"]
    assert [line for line in lines if "[WA-113]" in line], lines
    assert "[HG-107] rank 1 (ubuntu1)" in read_dump(lines)


@pytest.mark.rest
def test_a_job_finishes_without_the_node_that_hung(bench: Bench) -> None:
    more = ("--stalled", str(STALLED), "--on-hang", "restart")
    elastic = ("--c10d", "--nnodes=1:2")
    with watch_job(bench, ELASTIC, *more, launcher_options=elastic) as process:
        lines = lines_until(process, "never said", 300)
        assert process.wait(ENDS) == 0, lines
        assert list_ranks(bench) == ["0", "0"]
    assert "fullmesh watch: [WA-116] The job starts again without ubuntu1, on el1." in lines
    assert lines[-1] == ENDED
    assert "[HG-107] rank 1 (ubuntu1)" in read_dump(lines)


@pytest.mark.rest
def test_the_node_with_the_rendezvous_is_not_left_out(bench: Bench) -> None:
    more = ("--stalled", str(STALLED), "--on-hang", "restart")
    script = ELASTIC.replace("rank == 1", "rank == 0")
    with watch_job(bench, script, *more, launcher_options=("--c10d", "--nnodes=1:2")) as process:
        lines = lines_until(process, "never said", 200)
        assert process.wait(ENDS) == 1, lines
    why = "[WA-114] The job does not start again: el1 has the rendezvous"
    assert [line for line in lines if why in line], lines
    assert "[HG-107] rank 0 (el1)" in read_dump(lines)


@pytest.mark.rest
def test_a_job_finishes_without_a_node_that_no_longer_answers(bench: Bench) -> None:
    more = ("--stalled", "20", "--on-hang", "restart")
    lost = bench.nodes[1]
    # its ssh and its data stop without a reset, as in a power failure
    table = "table inet lost { chain %s { type filter hook %s priority -300; policy drop; }; }"
    with watch_job(bench, ELASTIC, *more, launcher_options=("--c10d", "--nnodes=1:2")) as process:
        deadline = time.monotonic() + READY_SECONDS
        while not lost.on(f"cat {STATE}/ready1 2>/dev/null", check=False):
            assert time.monotonic() < deadline
            time.sleep(POLL)
        for hook in ("input", "output"):
            lost.on(f"echo '{table % (hook, hook)}' | nft -f -")
        try:
            lines = lines_until(process, "never said", 400)
        finally:
            lost.on("nft delete table inet lost")
        assert process.wait(ENDS) == 0, lines
    output = "\n".join(lines)
    assert "[HG-151] rank 1 (ubuntu1) cannot be queried" in output
    assert "[WA-117] ubuntu1 has not confirmed within 30 s" in output
    assert "[WA-116] The job starts again without ubuntu1, on el1." in output
    assert lines[-1] == ENDED
    assert "[HG-151]" in read_dump(lines)
