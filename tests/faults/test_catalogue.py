"""The list of faults is complete."""

from __future__ import annotations

from causes.cases import FAULTS

from fullmesh.causes.engine import LAB
from fullmesh.diagnose.run import NEXT_BOOT

from .checks import CASES, CI_FAULTS


def test_each_case_that_a_lab_can_make_has_a_fault() -> None:
    """Each case that a lab can make has a fault, and each fault has a case."""
    made = {fault.case for fault in FAULTS}
    assert {name for name, (_, case) in CASES.items() if case.by == LAB} - made == set()
    assert made - set(CASES) == set()
    names = [f"{fault.lab}-{fault.name}" for fault in FAULTS]
    assert len(names) == len(set(names))


def test_each_family_has_a_fault_in_ci() -> None:
    """Each family has a fault without ``--all``, except changes at the next boot."""
    made = {CASES[fault.case][0].family for fault in FAULTS}
    assert set(CI_FAULTS) == made - {NEXT_BOOT}
    assert set(CI_FAULTS.values()) <= {f"{fault.lab}-{fault.name}" for fault in FAULTS}
