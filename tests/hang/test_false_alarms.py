"""Thousands of healthy steps of an example on a machine that is busy with other things: nobody is accused."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator

import pytest

from fullmesh.settings import ROOT

from .bench import STATE, Bench, Job

LOAD = 20.0
LOADED_WITHIN = 300.0  # seconds in which the average over a minute gets there
ENDS = 1500.0  # seconds in which there were enough answers and steps, at that load
ASKED = 300.0  # seconds in which an answer comes, at that load
STEPS_OF_ONE = 32  # an epoch of examples/ddp.py on two ranks
STEPS = 1000
LOOKS = 5
# Until it is ended: how many answers come while a job of so many steps runs is the machine's affair.
SCRIPT = (
    "import runpy, sys\n"
    "from torch.utils.data import DistributedSampler\n"
    "_set = DistributedSampler.set_epoch\n"
    "def _told(sampler, epoch):\n"
    "    open(_s + '/epoch' + _r, 'w').write(str(epoch))\n"
    "    _set(sampler, epoch)\n"
    "DistributedSampler.set_epoch = _told\n"
    "sys.argv[1:] = ['1000000']\n"
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


def steps(job: Job) -> int:
    """How many steps rank 0 has behind it."""
    return int(job.node(0).on(f"cat {STATE}/epoch0 2>/dev/null", check=False) or 0) * STEPS_OF_ONE


@pytest.mark.rest
def test_healthy_steps_give_no_finding(bench: Bench, busy: None) -> None:
    files = {"ddp.py": (ROOT / "examples/ddp.py").read_text()}
    looks, deadline = 0, time.monotonic() + ENDS
    with Job(bench, SCRIPT, files, words="--static --watch 120") as job:
        while looks < LOOKS or steps(job) < STEPS:
            assert time.monotonic() < deadline, (looks, steps(job), job.said())
            answer = bench.ask(seconds=ASKED)
            assert answer.causes == [], answer.told()
            # before its first process group there is no rank to ask
            looks += answer.code == 0
        assert [one.poll() for one in job.running] == [None, None], job.said()
        assert "WA-109" not in job.said()
