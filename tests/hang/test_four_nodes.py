"""Run jobs on four nodes with one rank each: the finding names the right rank."""

from __future__ import annotations

import pytest
from causes.cases import JOB_FAULTS
from causes.job_faults import JobFault

from .bench import Bench
from .test_hang import find_difference, run_hung_job

# a sleeping rank, a chain of groups, two causes, a different collective, a group without its caller
CHOSEN = tuple(one for one in JOB_FAULTS if one.world == 4)


@pytest.mark.rest
@pytest.mark.parametrize("fault", [pytest.param(one, id=one.name) for one in CHOSEN])
def test_hung_job_on_four_nodes_has_the_right_cause(four_nodes: Bench, fault: JobFault) -> None:
    with run_hung_job(four_nodes, fault) as job:
        answer = four_nodes.query_job(*fault.options)
        difference = find_difference(job, fault, answer)
    assert not difference, f"{difference}\n{answer.describe_findings()}\n{job.read_output()}"
