"""The same over four nodes, a rank on each: four kernels and four interpreters are asked, and one of them is named."""

from __future__ import annotations

import pytest
from causes.cases import JOB_FAULTS
from causes.job_faults import JobFault

from .bench import Bench
from .test_hang import broken, right

# one sleeps; a chain of groups; two causes; one that calls something else; a group without its caller
CHOSEN = tuple(one for one in JOB_FAULTS if one.world == 4)


@pytest.mark.rest
@pytest.mark.parametrize("fault", [pytest.param(one, id=one.name) for one in CHOSEN])
def test_the_cause_is_named_over_four_nodes(four: Bench, fault: JobFault) -> None:
    with broken(four, fault) as job:
        answer = four.ask(*fault.words)
        wrong = right(job, fault, answer)
    assert not wrong, f"{wrong}\n{answer.told()}\n{job.said()}"
