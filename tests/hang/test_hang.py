"""Query hung jobs on lab nodes: one cause with its rank and line. A healthy job has no finding."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from causes.cases import JOB_FAULTS
from causes.job_faults import HEALTHY_JOBS, MANY, JobFault
from lab_nodes import run_shell

from . import table
from .bench import Answer, Bench, Job

WITHIN = 60.0  # seconds, on a busy machine


@contextmanager
def run_hung_job(bench: Bench, fault: JobFault) -> Iterator[Job]:
    """Start the job of a fault and wait until it hangs."""
    ranks_per_node = fault.world // len(bench.nodes)
    node = bench.nodes[fault.at // ranks_per_node]
    if fault.prepares:
        node.on(fault.prepares)
    with Job(bench, fault.script, dict(fault.files), ranks_per_node) as job:
        try:
            job.wait_until_ready()
            if fault.breaks:
                node.on(f"PID={job.read_pid(fault.at)}; {fault.breaks}")
            if fault.pulls:
                run_shell(
                    ["env"], f"ip link set {node.cable} down", check=True, where="this machine"
                )
            job.continue_ranks()
            time.sleep(fault.settle)
            yield job
        finally:
            if fault.pulls:
                run_shell(["env"], f"ip link set {node.cable} up", check=True, where="this machine")
            if fault.undo:
                node.on(f"pkill -KILL -u trainer || true; sleep 0.3; {fault.undo}")


def find_difference(job: Job, fault: JobFault, answer: Answer) -> str:
    """Return the difference from the expected answer, "" if there is none."""
    if not answer.findings:
        return "no finding"
    first = answer.findings[0]
    expected_place = job.locate_line(fault.line, fault.file) if fault.line else ""
    expected = (fault.code, list(fault.ranks), expected_place)
    found = (first["code"], first["ranks"], first["place"] if fault.line else "")
    # if a link is cut, one rank may have its whole result, and the finding only names the other one
    one_rank_only = [
        (fault.code, [rank], expected_place)
        for rank in fault.ranks
        if f"rank {rank} does not come out, while rank {1 - rank} came out" in first["cause"]
    ]
    if found not in (expected, *one_rank_only):
        return f"expected {expected}, found {found}"
    other_causes = sorted(one["code"] for one in answer.causes if one is not first)
    if other_causes != sorted(fault.also):
        return f"other causes: {other_causes}"
    text = first["cause"] + first["seen"]
    missing = [one for one in fault.expected if one not in text]
    return f"the finding lacks {missing}" if missing else ""


@pytest.mark.parametrize("fault", [pytest.param(one, id=one.name) for one in JOB_FAULTS])
def test_hung_job_has_the_right_cause(
    bench: Bench, fault: JobFault, recording_folder: Path | None
) -> None:
    with run_hung_job(bench, fault) as job:
        answer = bench.query_job(*fault.options)
        if recording_folder and fault.record:
            bench.record(recording_folder / f"{fault.name}.json")
        difference = find_difference(job, fault, answer)
    table.save_row(fault, answer, difference)
    assert not difference, f"{difference}\n{answer.describe_findings()}\n{job.read_output()}"
    assert answer.seconds < WITHIN


@pytest.mark.rest
def test_one_of_64_ranks_hangs(bench: Bench) -> None:
    with run_hung_job(bench, MANY) as job:
        answer = bench.query_job()
        difference = find_difference(job, MANY, answer)
    table.save_row(MANY, answer, difference)
    assert not difference, f"{difference}\n{answer.describe_findings()}\n{job.read_output()}"


@pytest.mark.parametrize("fault", [pytest.param(one, id=one.name) for one in HEALTHY_JOBS])
def test_healthy_job_has_no_other_finding(bench: Bench, fault: JobFault) -> None:
    with run_hung_job(bench, fault) as job:
        answer = bench.query_job(*fault.options)
    difference = find_difference(job, fault, answer) or (
        "" if answer.code == 0 else f"exit code {answer.code}"
    )
    table.save_row(fault, answer, difference)
    assert not difference, f"{difference}\n{answer.describe_findings()}\n{job.read_output()}"
