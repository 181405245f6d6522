"""Check that thousands of healthy steps of an example on a busy machine give no finding."""

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
LOAD_SECONDS = 300.0  # seconds until the load average of the last minute reaches LOAD
JOB_SECONDS = 1500.0  # seconds for all samples and steps at that load
ANSWER_SECONDS = 300.0  # seconds for one answer at that load
STEPS_OF_ONE = 32  # an epoch of examples/ddp.py on two ranks
STEPS = 1000
SAMPLES = 5
# The job runs until the test ends it, because the number of answers per step depends on the machine.
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
def busy_machine() -> Iterator[None]:
    """Start enough busy processes for the load."""
    count = int(LOAD) + 4
    running = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(count)]
    try:
        deadline = time.monotonic() + LOAD_SECONDS
        while os.getloadavg()[0] < LOAD:
            assert time.monotonic() < deadline, os.getloadavg()
            time.sleep(1)
        yield
        assert os.getloadavg()[0] >= LOAD
    finally:
        for one in running:
            one.kill()
            one.wait()


def count_steps(job: Job) -> int:
    """Return the number of steps that rank 0 has completed."""
    return (
        int(job.find_node(0).on(f"cat {STATE}/epoch0 2>/dev/null", check=False) or 0) * STEPS_OF_ONE
    )


@pytest.mark.rest
def test_healthy_steps_give_no_finding(bench: Bench, busy_machine: None) -> None:
    files = {"ddp.py": (ROOT / "examples/ddp.py").read_text()}
    samples, deadline = 0, time.monotonic() + JOB_SECONDS
    with Job(bench, SCRIPT, files, options="--static --watch 120") as job:
        while samples < SAMPLES or count_steps(job) < STEPS:
            assert time.monotonic() < deadline, (samples, count_steps(job), job.read_output())
            answer = bench.query_job(seconds=ANSWER_SECONDS)
            assert answer.causes == [], answer.describe_findings()
            # before its first process group, a job has no ranks to query
            samples += answer.code == 0
        assert [one.poll() for one in job.running] == [None, None], job.read_output()
        assert "WA-109" not in job.read_output()
