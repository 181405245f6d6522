"""The documents: the first page is short, and what one names of the tree is there."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from causes.cases import FAULTS

from fullmesh import __version__
from fullmesh.catalogue import NEXT_RELEASE
from fullmesh.explain.pages import render_pages
from fullmesh.model import plan
from fullmesh.settings import ROOT

FIRST = ("README", "SECURITY")
PAGES = sorted([*(ROOT / f"{name}.md" for name in FIRST), *(ROOT / "docs").rglob("*.md")])
LINK = re.compile(r"\]\((?!https?:|#|mailto:)([^)#\s]+)(?:#[^)]*)?\)")
README_LINES = 120
CHANGELOG = (ROOT / "CHANGELOG.md").read_text()
FORMS = sorted((ROOT / ".github/ISSUE_TEMPLATE").glob("[0-9]*.yml"))


def test_the_first_page_is_short() -> None:
    assert len((ROOT / "README.md").read_text().splitlines()) <= README_LINES


def test_readme_and_changelog_name_the_version() -> None:
    """No other page does: the commands of the pages find an archive by its pattern."""
    assert f"version {__version__}," in (ROOT / "README.md").read_text()
    released = re.search(r"^## (\d\S+) - \d{4}-\d\d-\d\d$", CHANGELOG, re.MULTILINE)
    assert released
    assert released[1] == __version__
    named = re.compile(r"fullmesh(?:-cluster)?-\d+\.\d+\.\d+")
    assert [page.name for page in PAGES if named.search(page.read_text())] == []


def test_old_spellings_work_until_a_later_release() -> None:
    """The release that removes them has to remove their code, too."""
    ends = [int(part) for part in NEXT_RELEASE.split(".")]
    assert ends > [int(part) for part in __version__.split(".")]
    assert f"until version {NEXT_RELEASE}" in " ".join(CHANGELOG.split())


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_have_a_target(page: Path) -> None:
    """On GitHub as well, which has none of the pages that the site makes."""
    named = [(page.parent / one).resolve() for one in LINK.findall(page.read_text())]
    assert [one for one in named if not one.exists()] == []


# Files of other projects that a page speaks of.
FOREIGN = {"PERFORMANCE.md"}
NAMED = re.compile(r"(?<![\w/*<.-])((?:\.\./)*\w[\w./-]*\.md)\b")


def test_every_page_that_is_named_is_in_the_tree() -> None:
    pages = [*(ROOT / "docs").rglob("*.md"), *(ROOT / "roles").glob("*/README.md")]
    pages += [ROOT / f"{name}.md" for name in FIRST]
    texts = {page: page.read_text() for page in pages}
    texts |= {ROOT / name: text for name, text in render_pages().items()}
    absent = [
        (page.name, name)
        for page, text in texts.items()
        for name in set(NAMED.findall(text)) - FOREIGN
        if not any((folder / name).exists() for folder in (page.parent, ROOT, ROOT / "docs"))
    ]
    assert absent == []


# The pages for contributors. Other pages name the user's own files as well.
CODE_PAGES = (
    "architecture.md",
    "CONTRIBUTING.md",
    "development/lab.md",
    "development/reliability.md",
)
NAMED_FILE = re.compile(r"`([\w./]+\.(?:py|yml|j2|sh))`")
NAMED_FUNCTION = re.compile(
    r"`(?:[a-z_]+\.)*(?!fullmesh\.)([a-z_]+)\.(?!py|yml|html|xml)([a-z_]+)(?:\(\))?`"
)
MADE_UP = re.compile(r"NNN_NAME\.py$|^inventory/lab/hosts\.yml$")


@pytest.mark.parametrize("page", CODE_PAGES)
def test_the_code_that_a_page_for_contributors_names_exists(page: str) -> None:
    tracked = subprocess.run(["git", "ls-files"], cwd=ROOT, check=True, capture_output=True)
    files = [f"/{name}" for name in tracked.stdout.decode().split()]
    text = (ROOT / "docs" / page).read_text()
    absent = [
        name
        for name in sorted(set(NAMED_FILE.findall(text)))
        if not MADE_UP.search(name) and not any(file.endswith(f"/{name}") for file in files)
    ]
    for module, name in sorted(set(NAMED_FUNCTION.findall(text))):
        own = [file for file in files if file.endswith(f"/{module}.py")]
        defined = re.compile(rf"\b(def|class) {name}\b|^{name}\b", re.MULTILINE)
        if own and not any(defined.search((ROOT / file[1:]).read_text()) for file in own):
            absent.append(f"{module}.{name}")
    assert absent == []


def count_tests(folder: str, *more: str) -> int:
    """How many tests a folder has, in all or in CI's selection."""
    command = [sys.executable, "-m", "pytest", "--collect-only", "-q", "-p", "no:cacheprovider"]
    done = subprocess.run(
        [*command, folder, *more], cwd=ROOT, check=True, capture_output=True, text=True
    )
    return sum("::" in line for line in done.stdout.splitlines())


def test_the_pages_count_the_same_faults_and_cuts() -> None:
    tested = (ROOT / "docs/development/tested.md").read_text()
    assert f"{len(FAULTS)} injected faults" in tested
    gpus = [fault for fault in FAULTS if fault.case.startswith("gpu-")]
    assert f"{len(gpus)} use simulated GPUs" in tested
    drawn = count_tests("tests/cuts/test_drawn_cuts.py")
    in_ci = count_tests("tests/cuts", "-m", "not rest")
    cuts = count_tests("tests/cuts") - drawn
    assert f"{cuts} cuts, some on IPv6, and {drawn} random ones" in tested
    assert f"containers, {in_ci} in CI, all" in tested


SERVICES = [
    (str(page.relative_to(ROOT)), text)
    for page in sorted([*(ROOT / "docs").rglob("*.md"), *(ROOT / "roles").glob("*/README.md")])
    for text in re.findall(r"```yaml\n(.*?)```", page.read_text(), re.DOTALL)
    if "fullmesh_services:" in text
]


@pytest.mark.parametrize(("page", "text"), SERVICES, ids=[page for page, _ in SERVICES])
def test_services_that_a_page_shows_make_a_plan(page: str, text: str) -> None:
    del page
    shown = yaml.safe_load(text.replace("…", ""))
    given = {
        name: {
            **{key: value for key, value in shown.items() if key.startswith("fullmesh_")},
            "fullmesh_address": f"203.0.113.{number}/24",
        }
        for number, name in enumerate(("gpu1", "gpu2"), 1)
    }
    assert plan.derive_plan(given)["services"]


def test_the_ports_of_slurm_are_a_service() -> None:
    for page in (ROOT / "docs").rglob("*.md"):
        assert "fullmesh_service_ports" not in page.read_text(), page.name
    assert "docs/launchers.md" in {page for page, _ in SERVICES}


def test_the_readme_names_verbs_that_exist() -> None:
    from fullmesh.cli import build_parser  # noqa: PLC0415 (slow to import)

    text = (ROOT / "README.md").read_text()
    verbs = set(re.findall(r"\./fullmesh ([a-z-]+)", text))
    helped = build_parser().format_help()
    assert verbs
    assert verbs <= set(re.findall(r"^    ([a-z-]+)", helped, re.MULTILINE))


@pytest.mark.parametrize("form", FORMS, ids=lambda form: form.stem)
def test_a_form_is_one_that_github_shows(form: Path) -> None:
    """GitHub ignores an invalid form without an error ("Syntax for issue forms")."""
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


def test_the_issue_forms_ask_for_what_a_rule_needs() -> None:
    texts = {form.stem: form.read_text() for form in FORMS}
    assert texts.keys() == {"1-bug", "2-unnamed-cause", "3-feature"}
    for name in ("1-bug", "2-unnamed-cause"):
        assert "runs/<time>/result.json" in texts[name]
