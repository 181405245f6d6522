"""Find codes that no test covers.

A code is covered if a test names it and its message's line runs in a test.

``python tests/support/code_coverage.py`` runs the unit tests under coverage and names every uncovered
code.

Comments and docstrings do not count. A code in a table (a cause of a log, the word of a result) is
made when the module is read, so its line proves nothing. For such a code, a test only has to name
it. Codes that only nodes raise are named by tests on nodes: a molecule scenario, or a test in the
lab.
"""

from __future__ import annotations

import ast
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from fullmesh import codes
from fullmesh.causes.engine import load_causes
from fullmesh.settings import ROOT

# The cases of causes are changes that unit tests make. Such a file is named after its code.
UNIT = ("tests/unit", "tests/causes")
# code that raises codes
SOURCES = (
    "roles",
    "src",
    "library",
    "module_utils",
    "node_programs",
    "playbooks",
    "filter_plugins",
    "fullmesh",
    "lab",
)
# Tests on nodes, in containers or virtual machines, and against a mock of EC2.
NODES = (
    "molecule",
    "tests/e2e",
    "tests/cuts",
    "tests/faults",
    "tests/surprises",
    "tests/vm",
    "tests/ec2",
    "tests/infra",
    "tests/install",
)
CASE_FILE = re.compile(r"([a-z]{2})([0-9]{3})_")
DATA = ROOT / ".fullmesh/coverage"


def list_docstring_ids(tree: ast.AST) -> set[int]:
    """Return the ids of the constants that are docstrings."""
    documented = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    return {
        id(node.body[0].value)
        for node in ast.walk(tree)
        if isinstance(node, documented) and node.body and isinstance(node.body[0], ast.Expr)
    }


def list_texts(tree: ast.AST, doc: set[int]) -> Iterator[ast.Constant]:
    """List every text in a part of a program except docstrings."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in doc:
            yield node


def list_codes(text: str) -> set[str]:
    """List the codes in a text."""
    return {code for code in codes.CODE.findall(text) if code[:2] in codes.PREFIXES}


def list_yaml_codes(path: Path) -> set[str]:
    """List the codes in an Ansible file, without its comments."""
    lines = path.read_text(encoding="utf-8").splitlines()
    return list_codes("\n".join(line for line in lines if not line.lstrip().startswith("#")))


def list_named_codes(*tops: str) -> set[str]:
    """Return the codes that programs and playbooks below *tops* name, and those that need a line in a unit test."""
    found: set[str] = set()
    if UNIT[0] in tops:
        logs = load_causes("LG").values()
        found |= {
            one.code for one in logs if getattr(one, "examples", ()) or getattr(one, "recorded", ())
        }
    for path in (one for top in tops for one in sorted((ROOT / top).rglob("*"))):
        if path.suffix == ".py":
            if own := CASE_FILE.match(path.name):
                found |= list_codes("-".join(own.groups()).upper())
            tree = ast.parse(path.read_text(encoding="utf-8"))
            found |= {
                code
                for one in list_texts(tree, list_docstring_ids(tree))
                for code in list_codes(str(one.value))
            }
        elif path.suffix in (".yml", ".j2", ".sh"):
            found |= list_yaml_codes(path)
    return found


def list_code_statements(tree: ast.AST) -> Iterator[tuple[int, set[str]]]:
    """List (line, codes) of each statement with codes inside a function."""
    doc = list_docstring_ids(tree)
    for function in ast.walk(tree):
        if not isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        for statement in ast.walk(function):
            if isinstance(statement, ast.stmt) and statement is not function:
                nested = {
                    id(part)
                    for inner in ast.iter_child_nodes(statement)
                    if isinstance(inner, ast.stmt)
                    for part in ast.walk(inner)
                }
                own = [one for one in list_texts(statement, doc) if id(one) not in nested]
                found = {code for one in own for code in list_codes(str(one.value))}
                if found:
                    yield statement.lineno, found


def map_code_places() -> dict[str, list[tuple[str, int]]]:
    """Map each code to its statements, as (path, line)."""
    found: dict[str, list[tuple[str, int]]] = {}
    for path in (one for top in SOURCES for one in sorted((ROOT / top).rglob("*.py"))):
        if path.is_symlink() or any(parent.is_symlink() for parent in path.parents):
            continue
        for line, names in list_code_statements(ast.parse(path.read_text(encoding="utf-8"))):
            for code in names:
                found.setdefault(code, []).append((str(path.relative_to(ROOT)), line))
    return found


def run_under_coverage(words: list[str]) -> dict[str, set[int]]:
    """Run the unit tests under coverage. Return path -> lines that ran."""
    DATA.mkdir(parents=True, exist_ok=True)
    for old in DATA.iterdir():
        old.unlink()
    env = {**os.environ, "COVERAGE_RCFILE": str(ROOT / "pyproject.toml")}
    env["COVERAGE_FILE"] = str(DATA / "data")
    coverage = [sys.executable, "-m", "coverage"]
    # a test that times out here means nothing for codes, because the part "unit" runs it, too
    subprocess.run(
        [*coverage, "run", "-m", "pytest", *words, UNIT[0]], cwd=ROOT, env=env, check=False
    )
    subprocess.run([*coverage, "combine", "--quiet"], cwd=ROOT, env=env, check=True)
    report = DATA / "lines.json"
    json_report = [*coverage, "json", "--quiet", "-o", str(report)]
    subprocess.run(json_report, cwd=ROOT, env=env, check=True)
    files = json.loads(report.read_text())["files"]
    return {path: set(about["executed_lines"]) for path, about in files.items()}


def map_uncovered_codes(ran: dict[str, set[int]]) -> dict[str, str]:
    """Map each uncovered code to the reason."""
    places, by_unit, by_nodes = map_code_places(), list_named_codes(*UNIT), list_named_codes(*NODES)
    found = {}
    for code in codes.collect_codes():
        if code in by_nodes:
            continue
        if code not in by_unit:
            found[code] = "no test names it"
        elif code in places and not any(line in ran.get(path, ()) for path, line in places[code]):
            where = ", ".join(f"{path}:{line}" for path, line in places[code])
            found[code] = f"a unit test names it, and none runs {where}"
    return found


def main() -> int:
    """Print each uncovered code."""
    found = map_uncovered_codes(run_under_coverage(sys.argv[1:] or ["-q", "-n", "4"]))
    for code, why in found.items():
        sys.stdout.write(f"{code}: {why}\n")
    count = len(codes.collect_codes())
    sys.stdout.write(f"{count - len(found)} of {count} codes are seen by a test\n")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
