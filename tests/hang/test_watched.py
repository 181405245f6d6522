"""A job that is started under watch and stands: said by itself, with the cause, while the job is still there."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
import slow_jobs
from hang_jobs import START

from fullmesh.settings import ROOT

from .bench import HOME, TORCHRUN, Bench, Job

STALLED = 10
ENDS = 60  # seconds in which a watch that is told to end has ended its job everywhere
STANDS = (
    START.replace("range(3)", "range(20)")
    + "ready()\nif rank == 1:\n    time.sleep(1000)\ndist.all_reduce(grads)\n"
)


@contextmanager
def watched(bench: Bench, script: str, *more: str) -> Iterator[subprocess.Popen[str]]:
    """A job below the controller's watch."""
    with Job(bench, script, starts=False):
        words = [
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
            [*words, TORCHRUN, "--static", f"{HOME}/train.py"],
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
    """What the watch says, to the first line with a text."""
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
    place = Job(bench, STANDS).line("time.sleep(1000)")
    with watched(bench, STANDS, "--stalled", str(STALLED)) as process:
        lines = lines_until(process, "[HG-", 200)
        assert process.poll() is None, lines
    stands = [line for line in lines if "[WA-109]" in line]
    assert any("rank 0" in line and "all_reduce 21 of default_pg" in line for line in stands)
    assert lines[-1].startswith(
        f"fullmesh watch: [HG-107] rank 1 (ubuntu1) sleeps at {place}, while rank 0"
    )


@pytest.mark.rest
def test_a_slow_rank_is_named_while_its_job_continues(bench: Bench) -> None:
    script = slow_jobs.JOBS["slow_sleep"].script
    place = Job(bench, script).line("time.sleep(0.04)")
    with watched(bench, script, "--stalled", "20") as process:
        lines = lines_until(process, "[HG-", 300)
        assert process.poll() is None, lines
    assert lines[-1].startswith("fullmesh watch: [HG-163] the job continues, but rank 0 waits ")
    assert f"for rank 1 (ubuntu1). Reason: it sleeps at {place}" in lines[-1]


@pytest.mark.rest
def test_a_healthy_job_under_watch_is_not_reported(bench: Bench) -> None:
    script = slow_jobs.JOBS["healthy_varied"].script
    with watched(bench, script, "--stalled", "20") as process:
        lines = lines_until(process, "fullmesh watch:", 150)
    assert [line for line in lines if "fullmesh watch:" in line] == []
