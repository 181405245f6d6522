"""The list of faults is whole."""

from __future__ import annotations

from causes.cases import FAULTS

from fullmesh.causes.engine import LAB
from fullmesh.diagnose.run import NEXT_BOOT

from .checks import CASES, KEPT


def test_every_cause_that_can_be_made_is_made() -> None:
    """No case of a cause that a lab can make is left out, and none is made that no cause has."""
    made = {fault.case for fault in FAULTS}
    assert {name for name, (_, case) in CASES.items() if case.by == LAB} - made == set()
    assert made - set(CASES) == set()
    names = [f"{fault.lab}-{fault.name}" for fault in FAULTS]
    assert len(names) == len(set(names))


def test_each_family_of_causes_has_a_fault_that_ci_makes() -> None:
    """Without ``--all``, too; what the next boot changes is left to it."""
    made = {CASES[fault.case][0].family for fault in FAULTS}
    assert set(KEPT) == made - {NEXT_BOOT}
    assert set(KEPT.values()) <= {f"{fault.lab}-{fault.name}" for fault in FAULTS}
