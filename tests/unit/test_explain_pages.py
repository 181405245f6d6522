"""explain: every code has a page, and the advice of the causes in logs names what there is."""

from __future__ import annotations

import pytest
from test_explain_log import run

from fullmesh import cli, codes
from fullmesh.causes.engine import load_causes
from fullmesh.causes.pages import fill_template, format_page_link, render_cause_section
from fullmesh.explain import judge, pages
from fullmesh.result import findings
from fullmesh.settings import ROOT


def test_every_page_that_a_finding_names_is_made() -> None:
    made = pages.render_pages()
    named = [
        *(format_page_link(code) for group in ("LG", "HG") for code in load_causes(group)),
        *(
            findings.get_code_page(code)
            for group in ("DG", "EC", "VC")
            for code in load_causes(group)
        ),
    ]
    for path, _, anchor in (one.partition("#") for one in named):
        assert f'<a id="{anchor}"></a>' in made[path]
    assert [
        code for code in codes.collect_codes() if f"| {code} |" not in made["docs/errors.md"]
    ] == []


def test_every_cause_has_a_whole_page() -> None:
    for code, cause in judge.CAUSES.items():
        text = "\n".join(render_cause_section(cause))
        for heading in ("Lines:", "Check:", "Fix:", "Source:"):
            assert heading in text, code
        assert cause.examples or not cause.patterns
        assert "{" not in fill_template(cause.page.why)


def test_every_needle_is_part_of_its_pattern() -> None:
    """A pattern whose needle is not in its examples would never be tried."""
    for cause in judge.CAUSES.values():
        for line in cause.examples:
            assert any(pattern.needle in line for pattern in cause.patterns)


def test_explain_without_a_code_lists_all(capsys: pytest.CaptureFixture[str]) -> None:
    result, out, _ = run(["explain"], capsys)
    assert (result, len(out.splitlines())) == (0, len(codes.collect_codes()))
    assert "\nCL-109  The code does not exist\n" in out


@pytest.mark.parametrize("code", codes.collect_codes())
def test_explain_knows_every_code(code: str, capsys: pytest.CaptureFixture[str]) -> None:
    result, out, _ = run(["explain", code.lower()], capsys)
    assert result == 0
    assert code in out
    assert (ROOT / out.rsplit("More: ", 1)[1].strip()).exists()


def test_every_command_and_code_in_the_advice_exists() -> None:
    known = codes.collect_codes()
    parser = cli.build_parser()
    verbs = next(iter(parser._subparsers._group_actions)).choices  # type: ignore[union-attr]
    for cause in judge.CAUSES.values():
        text = f"{cause.page.why} {cause.page.where} {cause.page.prove} {cause.page.fix}"
        assert {
            found for found in codes.CODE.findall(text) if found[:2] in codes.PREFIXES
        } <= known.keys()
        for part in text.split("./fullmesh ")[1:]:
            assert part.split(" ", 1)[0] in verbs
