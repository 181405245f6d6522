"""Questions to nodes: the program that travels."""

from __future__ import annotations

import ast
import hashlib
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from ask_connections import result, way
from pythons import find_interpreter

from fullmesh.ask import program, talk

NODE_FACTS = program.KNOWN["node_facts"]


def test_a_program_contains_exactly_what_its_module_imports() -> None:
    parts = program.collect_module_sources(NODE_FACTS.module)
    assert parts["fullmesh.node_facts"][0] is False
    assert parts["fullmesh.facts"][0] is True
    assert {"fullmesh", "fullmesh.manifest", "fullmesh.firewall.firewalld"} <= parts.keys()
    assert not [name for name in parts if name.startswith(("fullmesh.probe", "fullmesh.network"))]


def test_the_first_question_loads_no_engine_of_transactions() -> None:
    lines = (
        "import sys; sys.path.insert(0, sys.argv[1])\n"
        "import fullmesh.node_facts as n; n.answer_node_facts(); print(*sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", lines, str(program.UTILS)],
        check=True,
        capture_output=True,
        text=True,
    )
    assert "fullmesh.transaction.engine" not in done.stdout.split()


def test_type_only_imports_are_not_sent(tmp_path: Path) -> None:
    (tmp_path / "p").mkdir()
    (tmp_path / "p/__init__.py").write_text("")
    for name in ("types", "used", "late"):
        (tmp_path / f"p/{name}.py").write_text("")
    (tmp_path / "p/a.py").write_text(
        "from typing import TYPE_CHECKING\nfrom .used import x\nif TYPE_CHECKING:\n    from .types import T\n"
        "def f():\n    from . import late\n"
    )
    assert sorted(program.collect_module_sources("p.a", tmp_path)) == [
        "p",
        "p.a",
        "p.late",
        "p.used",
    ]


def really_imported(node: ast.AST) -> Iterator[ast.ImportFrom]:
    """All ``from … import`` below a node of the syntax tree, but for those that only type checkers do."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.If) and getattr(child.test, "id", "") == "TYPE_CHECKING":
            continue
        if isinstance(child, ast.ImportFrom):
            yield child
        yield from really_imported(child)


@pytest.mark.parametrize(
    "path", sorted((program.UTILS / "fullmesh").rglob("*.py")), ids=lambda path: path.stem
)
def test_imports_by_text_equal_imports_by_syntax(path: Path) -> None:
    module = ".".join(path.relative_to(program.UTILS).with_suffix("").parts)
    module = module.removesuffix(".__init__")
    package = module.split(".") if path.name == "__init__.py" else module.split(".")[:-1]
    expected = set()
    for one in really_imported(ast.parse(path.read_text())):
        if one.level:
            above = package[: len(package) - one.level + 1]
            base = ".".join([*above, *([one.module] if one.module else [])])
            expected |= {base, *(f"{base}.{name.name}" for name in one.names)}
    assert set(program.list_relative_imports(module, path)) == expected


def test_the_same_source_is_the_same_program() -> None:
    first = program.build_query_program(NODE_FACTS.module)
    program.build_query_program.cache_clear()
    assert program.build_query_program(NODE_FACTS.module) == first
    assert hashlib.sha256(first.data).hexdigest() == first.sha256


def test_a_queried_module_answers_like_the_ansible_module(private: Path) -> None:
    question = talk.NodeQuery(NODE_FACTS, {"digest": "", "venv": "/opt/x/venv"}, 60, str(private))
    said = result(way(None), question)
    assert said["changed"] is False
    assert said["ansible_facts"]["fullmesh"]["venv"] == "/opt/x/venv"
    assert {"drift", "notes", "resolved", "busy"} <= said.keys()


@pytest.mark.parametrize("version", ["3.9", "3.13"])
def test_the_oldest_and_the_newest_python_of_nodes_answer(version: str, private: Path) -> None:
    path = find_interpreter(version)
    if not path:
        pytest.skip(f"this machine lacks Python {version}")
    question = talk.NodeQuery(NODE_FACTS, {"digest": "x", "venv": "/opt/x/venv"}, 60, str(private))
    there = way(None, command=program.build_query_command([str(path)]))
    first, second = result(there, question), result(there, question)
    assert first["ansible_facts"]["python_version"].startswith(f"{version}.")
    assert first["drift"] == second["drift"]
