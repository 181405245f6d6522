"""The readers of tools: each command and parser against recorded cases (recorded/tools/TOOL.json).

A case: ``build`` (function and arguments, or a constant) makes ``argv``; ``parse``, and then ``then`` if it is there,
makes ``fact`` of ``output`` (its lines). A case can leave out either half. If a parser refuses the output, ``refused``
stands for ``fact``.
"""

from __future__ import annotations

import contextlib
import importlib
import inspect
import json
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from ansible.module_utils.fullmesh import tools
from hypothesis import given, settings
from hypothesis import strategies as st

NAME = tools.__name__
READERS = sorted(path.stem for path in Path(tools.__path__[0]).glob("[!_]*.py"))
CASES: list[tuple[str, dict[str, Any]]] = [
    (reader, case)
    for reader in READERS
    for case in json.loads((Path(__file__).parent / f"recorded/tools/{reader}.json").read_text())
]
PARSERS = {(reader, case["parse"][0]) for reader, case in CASES if "parse" in case}


def load_reader(name: str) -> ModuleType:
    return importlib.import_module(f"{NAME}.{name}")


def list_functions(reader: str, *verbs: str) -> Iterator[str]:
    module = load_reader(reader)
    for name, one in inspect.getmembers(module, inspect.isfunction):
        if one.__module__ == module.__name__ and name.startswith(verbs):
            yield name


@pytest.mark.parametrize(
    ("reader", "case"), CASES, ids=[f"{reader}-{case['case']}" for reader, case in CASES]
)
def test_a_recorded_case_gives_its_fact(reader: str, case: dict[str, Any]) -> None:
    module = load_reader(reader)
    assert "build" in case or "parse" in case
    if "build" in case:
        name, *arguments = case["build"]
        made = getattr(module, name)
        assert (made(*arguments) if callable(made) else made) == case["argv"]
    if "parse" in case:
        name, *arguments = case["parse"]
        output = "".join(line + "\n" for line in case["output"])
        if "refused" in case:
            with pytest.raises(ValueError, match=case["refused"]):
                getattr(module, name)(output, *arguments)
        else:
            fact = getattr(module, name)(output, *arguments)
            fact = getattr(module, case["then"])(fact) if "then" in case else fact
            assert json.loads(json.dumps(fact)) == case["fact"]


@pytest.mark.parametrize("reader", READERS)
def test_every_command_and_parser_has_a_case(reader: str) -> None:
    builds = {case["build"][0] for name, case in CASES if name == reader and "build" in case}
    parsers = {parser for name, parser in PARSERS if name == reader}
    commands = {name for name in vars(load_reader(reader)) if name.startswith("SHOW_")}
    assert builds | parsers == commands | set(list_functions(reader, "build_", "parse_"))


@pytest.mark.parametrize(("reader", "parser"), sorted(PARSERS))
@settings(max_examples=30)
@given(data=st.data())
def test_no_output_makes_a_parser_crash(reader: str, parser: str, data: st.DataObject) -> None:
    same = [case for name, case in CASES if name == reader and case.get("parse", [""])[0] == parser]
    case = data.draw(st.sampled_from(same))
    text = data.draw(st.just("\n".join(case["output"])) | st.text())
    start, end = sorted(data.draw(st.tuples(*[st.integers(0, len(text))] * 2)))
    text = text[:start] + data.draw(st.text(max_size=3)) + text[end:]
    with contextlib.suppress(ValueError):  # it refuses a foreign text in this way only
        getattr(load_reader(reader), parser)(text, *case["parse"][1:])
