"""The list of faults is whole."""

from __future__ import annotations

from fullmesh.diagnose.catalogue import LAB

from .causes import FAULTS
from .checks import CASES


def test_every_cause_that_can_be_made_is_made() -> None:
    """No case of the catalogue that a lab can make is left out, and none is made that it does not know."""
    made = {fault.case for fault in FAULTS}
    assert {name for name, case in CASES.items() if case.by == LAB} - made == set()
    assert made - set(CASES) == set()
    names = [f"{fault.lab}-{fault.name}" for fault in FAULTS]
    assert len(names) == len(set(names))
