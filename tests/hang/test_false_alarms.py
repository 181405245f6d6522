"""Thousands of healthy steps of an example on a machine that is busy with other things: nobody is accused."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator

import pytest

from fullmesh.settings import ROOT

from .bench import Bench, Job

LOAD = 20.0
LOADED_WITHIN = 300.0  # seconds in which the average over a minute gets there
ENDS = 1500.0  # seconds in which the job does, at that load
ASKED = 300.0  # seconds in which an answer comes, at that load
EPOCHS, STEPS_OF_ONE = 200, 32  # examples/ddp.py on two ranks
STEPS = 1000
LOOKS = 5
SCRIPT = (
    "import runpy, sys\n"
    f"sys.argv[1:] = ['{EPOCHS}']\n"
    "runpy.run_path('/srv/jobs/ddp.py', run_name='__main__')\n"
)


@pytest.fixture
def busy() -> Iterator[None]:
    """As many processes that never rest as make the load."""
    count = int(LOAD) + 4
    running = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(count)]
    try:
        deadline = time.monotonic() + LOADED_WITHIN
        while os.getloadavg()[0] < LOAD:
            assert time.monotonic() < deadline, os.getloadavg()
            time.sleep(1)
        yield
        assert os.getloadavg()[0] >= LOAD
    finally:
        for one in running:
            one.kill()
            one.wait()


@pytest.mark.rest
def test_healthy_steps_accuse_nobody(bench: Bench, busy: None) -> None:
    assert EPOCHS * STEPS_OF_ONE >= STEPS
    files = {"ddp.py": (ROOT / "examples/ddp.py").read_text()}
    looks, deadline = 0, time.monotonic() + ENDS
    with Job(bench, SCRIPT, files, words="--static --watch 120") as job:
        while any(one.poll() is None for one in job.running):
            assert time.monotonic() < deadline, job.said()
            answer = bench.ask(seconds=ASKED)
            # before the first process group and after the end there is no rank to ask
            assert answer.causes == [], answer.told()
            looks += answer.code == 0
        codes = [one.wait() for one in job.running]
        said = job.said()
    assert codes == [0, 0], said
    assert "WA-109" not in said
    assert looks >= LOOKS, said
