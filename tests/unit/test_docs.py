"""The documents: the first page is short, and what one names of the tree is there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from fullmesh.settings import ROOT

FIRST = ("README", "CONTRIBUTING", "SECURITY")
PAGES = sorted([*(ROOT / f"{name}.md" for name in FIRST), *(ROOT / "docs").glob("*.md")])
LINK = re.compile(r"\]\((?!https?:|#|mailto:)([^)#\s]+)(?:#[^)]*)?\)")
README_LINES = 150


def test_the_first_page_is_short() -> None:
    assert len((ROOT / "README.md").read_text().splitlines()) <= README_LINES


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    named = [(page.parent / one).resolve() for one in LINK.findall(page.read_text())]
    assert [one for one in named if not one.exists()] == []


def test_the_readme_names_verbs_that_exist() -> None:
    from fullmesh.cli import build_parser  # noqa: PLC0415 (slow to import)

    text = (ROOT / "README.md").read_text()
    verbs = set(re.findall(r"\./fullmesh ([a-z-]+)", text))
    helped = build_parser().format_help()
    assert verbs
    assert verbs <= set(re.findall(r"^    ([a-z-]+)", helped, re.MULTILINE))
