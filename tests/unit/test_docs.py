"""The documents: the first page is short, and what one names of the tree is there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

from fullmesh.settings import ROOT

FIRST = ("README", "CONTRIBUTING", "SECURITY", "CODE_OF_CONDUCT")
PAGES = sorted([*(ROOT / f"{name}.md" for name in FIRST), *(ROOT / "docs").glob("*.md")])
LINK = re.compile(r"\]\((?!https?:|#|mailto:)([^)#\s]+)(?:#[^)]*)?\)")
README_LINES = 150
FORMS = sorted((ROOT / ".github/ISSUE_TEMPLATE").glob("[0-9]*.yml"))


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


@pytest.mark.parametrize("form", FORMS, ids=lambda form: form.stem)
def test_a_form_is_one_that_github_shows(form: Path) -> None:
    """A form with a fault is left out in silence (GitHub's "Syntax for issue forms")."""
    said = yaml.safe_load(form.read_text())
    assert said.keys() <= {"name", "description", "labels", "body"}
    assert said["name"]
    assert said["description"]
    asked = [one for one in said["body"] if one["type"] != "markdown"]
    ids = [one["id"] for one in asked]
    assert len(set(ids)) == len(ids)
    for one in asked:
        assert one["type"] in ("textarea", "input", "checkboxes")
        assert one["attributes"]["label"]
        assert ("options" in one["attributes"]) is (one["type"] == "checkboxes")


def test_the_forms_ask_for_what_a_rule_is_made_from() -> None:
    texts = {form.stem: form.read_text() for form in FORMS}
    assert texts.keys() == {"1-bug", "2-unnamed-cause", "3-feature"}
    for name in ("1-bug", "2-unnamed-cause"):
        assert "runs/<time>/result.json" in texts[name]
