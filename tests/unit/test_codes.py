"""Every code is listed, documented and named by a test."""

from __future__ import annotations

import ast
import re

import code_coverage
import pytest

from fullmesh import codes
from fullmesh.settings import ROOT

ALL = codes.collect_codes()
NAMED = code_coverage.list_named_codes(*code_coverage.UNIT, *code_coverage.NODES)


def test_every_used_code_is_listed() -> None:
    said: set[str] = set()
    for top in code_coverage.SOURCES:
        paths = [ROOT / top] if (ROOT / top).is_file() else (ROOT / top).rglob("*")
        for path in paths:
            if path.is_file() and "__pycache__" not in path.parts:
                said |= set(codes.CODE.findall(path.read_text(errors="replace")))
    assert len(said) > 500
    assert {code for code in said if code[:2] in codes.PREFIXES} <= ALL.keys()


def test_every_owner_keeps_to_its_letters() -> None:
    for code in ALL:
        assert code[:2] in codes.PREFIXES


# Names that begin a meaning in lower case: settings, options, files and these programs.
LOWER = re.compile(
    r"\S*[_`/.]|(apt-get|pip|ssh|firewalld|ufw|dnf|docker|systemd|systemctl|chronyd?|cloud-init|boto3"
    r"|ansible-core|libfabric|torch|torchrun|vLLM|watch|hang|pyxis|nccl-tests)\b"
)


def test_every_meaning_begins_as_a_sentence() -> None:
    wrong = {
        code: meaning
        for code, meaning in ALL.items()
        if not meaning[0].isupper() and not LOWER.match(meaning)
    }
    assert wrong == {}


@pytest.mark.parametrize("code", ALL)
def test_every_code_is_named_by_a_test(code: str) -> None:
    """Return whether its sentence is made while the tests run, ``./fullmesh test codes`` says."""
    assert code in NAMED


def test_a_name_in_a_comment_or_docstring_is_no_use() -> None:
    tree = ast.parse(
        '"""PL-101"""\ndef f():\n    """PL-102"""\n    # PL-103\n    return f"[PL-104] {f}"\n'
    )
    assert [
        one.value for one in code_coverage.list_texts(tree, code_coverage.list_docstring_ids(tree))
    ] == ["[PL-104] "]
    assert list(code_coverage.list_code_statements(tree)) == [(5, {"PL-104"})]


def test_a_code_without_a_sentence_is_ignored(monkeypatch: pytest.MonkeyPatch) -> None:
    by_unit, by_nodes = {"CL-101", "CL-102", "CL-103"}, {"CL-104"}
    monkeypatch.setattr(
        codes, "collect_codes", lambda: dict.fromkeys((*by_unit, *by_nodes, "CL-105"))
    )
    monkeypatch.setattr(
        code_coverage,
        "list_named_codes",
        lambda *tops: by_unit if tops == code_coverage.UNIT else by_nodes,
    )
    places = {
        "CL-101": [("a.py", 7)],
        "CL-102": [("a.py", 8), ("b.py", 9)],
        "CL-104": [("a.py", 1)],
    }
    monkeypatch.setattr(code_coverage, "map_code_places", lambda: places)
    # CL-103 is in a table
    found = code_coverage.map_uncovered_codes({"a.py": {3}, "b.py": {9}})
    assert found == {
        "CL-101": "a unit test names it, and none runs a.py:7",
        "CL-105": "no test names it",
    }
