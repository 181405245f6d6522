"""The same over four nodes, a rank on each: four kernels and four interpreters are asked, and one of them is named."""

from __future__ import annotations

import pytest

from .bench import Bench
from .faults import FAULTS, Fault
from .test_hang import broken, right

# one sleeps; a chain of groups; two causes; one that calls something else; a group without its caller
CHOSEN = tuple(one for one in FAULTS if one.world == 4)


@pytest.mark.rest
@pytest.mark.parametrize("fault", [pytest.param(one, id=one.name) for one in CHOSEN])
def test_the_cause_is_named_over_four_nodes(four: Bench, fault: Fault) -> None:
    with broken(four, fault) as job:
        answer = four.ask(*fault.words)
        wrong = right(job, fault, answer)
    assert not wrong, f"{wrong}\n{answer.told()}\n{job.said()}"
