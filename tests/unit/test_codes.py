"""Every code is listed, documented and provoked."""

from __future__ import annotations

import pytest

from fullmesh import codes
from fullmesh.settings import ROOT

ALL = codes.all_codes()
PROVOKED = codes.codes_in(ROOT, ("tests", "molecule"))


def test_every_code_that_is_said_is_listed() -> None:
    assert codes.codes_in(ROOT, codes.SOURCES) <= ALL.keys()


def test_every_owner_keeps_to_its_letters() -> None:
    for code in ALL:
        assert code[:2] in codes.PREFIXES


@pytest.mark.parametrize("code", ALL)
def test_every_code_is_provoked_by_a_test(code: str) -> None:
    assert code in PROVOKED


def test_the_page_is_up_to_date() -> None:
    assert (ROOT / "docs/errors.md").read_text() == codes.page()
