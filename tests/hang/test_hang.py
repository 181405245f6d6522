"""Jobs that stand on lab nodes are asked: the one cause with its rank and its line, silence where nothing stands."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from causes.cases import JOB_FAULTS
from causes.job_faults import HEALTHY_JOBS, MANY, JobFault
from lab_nodes import shell

from . import table
from .bench import Answer, Bench, Job

WITHIN = 60.0  # on a machine that does other things as well; the page has the figures


@contextmanager
def broken(bench: Bench, fault: JobFault) -> Iterator[Job]:
    """The job of a fault, at the moment when it stands."""
    each = fault.world // len(bench.nodes)
    node = bench.nodes[fault.at // each]
    if fault.prepares:
        node.on(fault.prepares)
    with Job(bench, fault.script, dict(fault.files), each) as job:
        try:
            job.wait()
            if fault.breaks:
                node.on(f"PID={job.pid(fault.at)}; {fault.breaks}")
            if fault.pulls:
                shell(["env"], f"ip link set {node.cable} down", check=True, where="this machine")
            job.go()
            time.sleep(fault.settle)
            yield job
        finally:
            if fault.pulls:
                shell(["env"], f"ip link set {node.cable} up", check=True, where="this machine")
            if fault.undo:
                node.on(f"pkill -KILL -u trainer || true; sleep 0.3; {fault.undo}")


def right(job: Job, fault: JobFault, answer: Answer) -> str:
    """What is wrong with an answer, "" where it is as it should be."""
    if not answer.findings:
        return "nothing was said"
    first = answer.findings[0]
    place = job.line(fault.line, fault.file) if fault.line else ""
    wanted = (fault.code, list(fault.ranks), place)
    said = (first["code"], first["ranks"], first["place"] if fault.line else "")
    # when a link is cut, one rank may have its whole result: the finding then says so, and names the other one alone
    alone = [
        (fault.code, [rank], place)
        for rank in fault.ranks
        if f"rank {rank} does not come out, while rank {1 - rank} came out" in first["cause"]
    ]
    if said not in (wanted, *alone):
        return f"wanted {wanted}, was told {said}"
    rest = sorted(one["code"] for one in answer.causes if one is not first)
    if rest != sorted(fault.also):
        return f"beside it stand {rest}"
    words = first["cause"] + first["seen"]
    lacks = [one for one in fault.says if one not in words]
    return f"it does not say {lacks}" if lacks else ""


@pytest.mark.parametrize("fault", [pytest.param(one, id=one.name) for one in JOB_FAULTS])
def test_the_cause_is_named(bench: Bench, fault: JobFault, recorded: Path | None) -> None:
    with broken(bench, fault) as job:
        answer = bench.ask(*fault.words)
        if recorded and fault.record:
            bench.record(recorded / f"{fault.name}.json")
        wrong = right(job, fault, answer)
    table.keep(fault, answer, wrong)
    assert not wrong, f"{wrong}\n{answer.told()}\n{job.said()}"
    assert answer.seconds < WITHIN


@pytest.mark.rest
def test_the_cause_is_named_among_sixty_four_ranks(bench: Bench) -> None:
    with broken(bench, MANY) as job:
        answer = bench.ask()
        wrong = right(job, MANY, answer)
    table.keep(MANY, answer, wrong)
    assert not wrong, f"{wrong}\n{answer.told()}\n{job.said()}"


@pytest.mark.parametrize("fault", [pytest.param(one, id=one.name) for one in HEALTHY_JOBS])
def test_a_job_that_is_well_hears_no_more_than_that(bench: Bench, fault: JobFault) -> None:
    with broken(bench, fault) as job:
        answer = bench.ask(*fault.words)
    wrong = right(job, fault, answer) or ("" if answer.code == 0 else f"exit code {answer.code}")
    table.keep(fault, answer, wrong)
    assert not wrong, f"{wrong}\n{answer.told()}\n{job.said()}"
