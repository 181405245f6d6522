"""The structure of the tree: names that a newcomer can search for."""

from __future__ import annotations

import ast
import subprocess
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

from fullmesh.settings import ROOT

PRODUCT = ("src/fullmesh", "module_utils", "library", "node_programs", "*_plugins")
# Ansible looks for these names in each plugin.
PLUGIN_CLASSES = {"ActionModule", "CallbackModule", "FilterModule"}
MOST_BARE_WORDS, MOST_SHARED = 0.05, 0.05
# The libraries' own documentation imports these modules so.
USUAL_ALIASES = {
    ("botocore.exceptions", "botocore_errors"),
    ("lightning.pytorch", "pl"),
    ("numpy", "np"),
    ("pytorch_lightning", "pl"),
    ("torch.distributed", "dist"),
    ("xml.etree.ElementTree", "ET"),
}


def list_python_files(*places: str) -> list[Path]:
    patterns = [f"{place}/*.py" for place in places]
    listed = subprocess.run(
        ["git", "ls-files", "-co", "--exclude-standard", "--", *patterns],
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
    ).stdout.split()
    files = {(ROOT / name).resolve() for name in listed if (ROOT / name).is_file()}
    assert files
    return sorted(files)


def collect_names(trees: dict[Path, ast.Module], *kinds: type[ast.AST]) -> dict[str, set[Path]]:
    """Collect the names that modules define at their top level, each with its files."""
    names: dict[str, set[Path]] = defaultdict(set)
    for path, tree in trees.items():
        for node in tree.body:
            if isinstance(node, kinds):
                names[node.name].add(path)  # type: ignore[attr-defined]
    return names


def find_hiding_aliases(tree: ast.Module) -> Iterator[tuple[str, str]]:
    """Find imports of this project's modules under a name that does not contain theirs."""
    for node in ast.walk(tree):
        if not isinstance(node, ast.Import | ast.ImportFrom):
            continue
        for name in node.names:
            own = name.name.rpartition(".")[2].removeprefix("fullmesh_")
            if name.asname and own not in name.asname and is_module(node, name.name):
                whole = f"{getattr(node, 'module', None) or ''}.{name.name}".lstrip(".")
                if (whole, name.asname) not in USUAL_ALIASES:
                    yield whole, name.asname


def is_module(node: ast.Import | ast.ImportFrom, name: str) -> bool:
    return isinstance(node, ast.Import) or (name.islower() and name in MODULES)


MODULES = {path.stem for path in list_python_files(*PRODUCT, "tests", "src/devtools")}
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
TREES = {path: ast.parse(path.read_text(encoding="utf-8")) for path in list_python_files(*PRODUCT)}


def test_class_names_are_unique() -> None:
    names = collect_names(TREES, ast.ClassDef)
    shared = {name: files for name, files in names.items() if len(files) > 1}
    assert set(shared) <= PLUGIN_CLASSES, shared


def test_function_names_can_be_searched_for() -> None:
    names = collect_names(TREES, *FUNCTIONS)
    del names["main"]
    count = sum(map(len, names.values()))
    bare = {name: files for name, files in names.items() if "_" not in name.strip("_")}
    shared = {name: files for name, files in names.items() if len(files) > 1}
    assert sum(map(len, bare.values())) <= MOST_BARE_WORDS * count, sorted(bare)
    assert sum(map(len, shared.values())) <= MOST_SHARED * count, sorted(shared)


def test_no_import_hides_its_module() -> None:
    bad = "from . import engine as rollback\nimport numpy as np\nfrom x import engine as own_engine"
    assert list(find_hiding_aliases(ast.parse(bad))) == [("engine", "rollback")]
    found = {
        str(path.relative_to(ROOT)): aliases
        for path in list_python_files(*PRODUCT, "tests", "src/devtools", "benchmarks", "molecule")
        if (aliases := list(find_hiding_aliases(ast.parse(path.read_text(encoding="utf-8")))))
    }
    assert found == {}
