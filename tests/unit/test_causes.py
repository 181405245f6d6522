"""The engine of causes: modules are found by their names, nothing explains in circles, and findings are folded."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from causes import cases

from fullmesh.causes import engine
from fullmesh.causes.engine import Cause, Explains, load_cause, parse_page
from fullmesh.codes import collect_codes
from fullmesh.result.findings import WARNING, Finding

CODES = sorted(engine.index_cause_modules())


def find_circle(causes: dict[str, Cause]) -> set[str]:
    """Find causes that explain each other, and those that follow from them."""
    reasons: dict[str, set[str]] = {code: set() for code in causes}
    for code, cause in causes.items():
        for other in (other for one in cause.explains for other in one.codes):
            reasons.setdefault(other, set()).add(code)
    free = {""}
    while free:
        free = {code for code, roots in reasons.items() if not roots}
        reasons = {code: roots - free for code, roots in reasons.items() if code not in free}
    return set(reasons)


def test_causes_do_not_explain_each_other_in_circles() -> None:
    known = {code: cause for code in CODES if (cause := load_cause(code))}
    assert len(known) == len(CODES) > 330
    assert find_circle(known) == set()
    one, other = Explains(("DG-1",)), Explains(("DG-2",))
    circle = {"DG-1": Cause("DG-1", "", weight=2, explains=(other,))}
    circle["DG-2"] = Cause("DG-2", "", weight=1, explains=(one,))
    circle["DG-3"] = Cause("DG-3", "", explains=(one,))
    assert find_circle(circle) == {"DG-1", "DG-2"}
    found = [make_finding("DG-1"), make_finding("DG-2")]
    shown = engine.fold_findings(found, lambda _one, _other: True)
    assert [(f.code, [g.code for g in f.follows]) for f in shown] == [("DG-1", ["DG-2"])]


def test_every_explained_cause_has_a_code() -> None:
    named = {
        code
        for one in CODES
        if (cause := load_cause(one))
        for explained in cause.explains
        for code in explained.codes
    }
    assert named <= collect_codes().keys()


@pytest.mark.parametrize("code", CODES)
def test_a_cause_has_a_page_and_cases_of_its_own(code: str) -> None:
    cause = load_cause(code)
    assert cause
    assert (cause.code, cause.family) == (code, engine.index_cause_modules()[code].split(".")[2])
    page = cause.page
    assert all((page.meaning, page.why, page.prove, page.fix))
    assert not page.meaning.endswith(".")
    names = [case.name for case in cause.cases]
    assert len(names) == len(set(names))
    assert all(
        engine.index_cases()[name] == (cause, case) for name, case in zip(names, cause.cases)
    )


def test_no_two_modules_have_one_code() -> None:
    modules = [path.stem for path in engine.FOLDER.glob("*/*.py")]
    found = [stem for stem in modules if re.match(r"[a-z]{2}\d{3}_", stem)]
    assert len(found) == len(CODES)


def test_each_case_file_belongs_to_a_cause() -> None:
    files = {path.stem for path in cases.FOLDER.glob("*/*.py")} - {"__init__"}
    assert {module.__name__.rpartition(".")[2] for module in cases.MODULES.values()} == files
    assert len(cases.CHANGE_CASES) == sum(
        len(getattr(m, "CHANGES", {})) for m in cases.MODULES.values()
    )


def test_a_fault_is_a_case_of_its_cause() -> None:
    for code, module in cases.MODULES.items():
        cause = load_cause(code)
        assert cause
        made = {fault.case for fault in getattr(module, "FAULTS", ())}
        assert made <= {case.name for case in cause.cases}, code


def test_a_module_is_found_by_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    family = tmp_path / "names"
    family.mkdir()
    for name in ("__init__.py", "dg999_new_cause.py", "dg99x_helper.py"):
        (family / name).write_text("")
    monkeypatch.setattr(engine, "FOLDER", tmp_path)
    assert engine.index_cause_modules.__wrapped__() == {
        "DG-999": "fullmesh.causes.names.dg999_new_cause"
    }


def test_the_parts_of_a_page_are_read() -> None:
    page = parse_page(
        "it is\nbroken\n\nBecause\nof it.\n\nAnd so.\n\n**Place:** d\n\n**Prove:** a\nb\n\n**Fix:** c\n"
    )
    assert (page.meaning, page.why) == ("it is broken", "Because of it.\n\nAnd so.")
    assert (page.where, page.prove, page.fix, page.source) == ("d", "a b", "c", "")
    with pytest.raises(ValueError, match="the page of 'it is broken' has the parts why, prove"):
        parse_page("it is broken\n\nBecause.\n\n**Prove:** a\n")
    with pytest.raises(ValueError, match="cure"):
        parse_page("it is broken\n\nBecause.\n\n**Prove:** a\n\n**Fix:** c\n\n**Cure:** d\n")


def make_finding(code: str, **more: str) -> Finding:
    return Finding(code, "L1", "", node="el1", **more)  # type: ignore[arg-type]


def test_explained_findings_are_listed_under_the_deepest_cause(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    held = {
        "DG-1": Cause("DG-1", "", weight=3, explains=(Explains(("DG-2",)),)),
        "DG-2": Cause("DG-2", "", weight=2, explains=(Explains(("DG-3",)),)),
        "DG-4": Cause("DG-4", "", weight=9, explains=(Explains(("DG-3",), lambda *_: False),)),
    }
    monkeypatch.setattr(engine, "load_cause", held.get)
    found = [make_finding(f"DG-{number}") for number in (3, 2, 1, 4)]
    shown = [(f.code, [g.code for g in f.follows]) for f in engine.fold_findings(found)]
    assert shown == [("DG-4", []), ("DG-1", ["DG-2", "DG-3"])]
    mild = [make_finding("DG-1", severity=WARNING), make_finding("DG-2")]
    shown = [(f.code, [g.code for g in f.follows]) for f in engine.fold_findings(mild)]
    assert shown == [("DG-2", []), ("DG-1", [])]  # a warning explains no error
