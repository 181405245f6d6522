"""The structure of the tree: names that a newcomer can search for, and packages that do not import in circles."""

from __future__ import annotations

import ast
import graphlib
import re
import subprocess
import sys
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path

import pytest

from devtools import dev
from fullmesh.code_digest import list_digest_files
from fullmesh.settings import ROOT

PRODUCT = ("src/fullmesh", "module_utils", "library", "node_programs", "*_plugins")
# Ansible looks for these names in each plugin.
PLUGIN_CLASSES = {"ActionModule", "CallbackModule", "FilterModule"}
NODE_CODE = "ansible.module_utils.fullmesh"
CONTROLLER = ("src", "action_plugins", "callback_plugins", "filter_plugins")
# What code that observes and judges nodes may import of code that runs on nodes: it changes none.
SHARED = {
    f"{NODE_CODE}.{name}"
    for name in (
        *("account", "answer", "ask", "commands", "detach", "facts", "files", "foreign_text"),
        *("lease", "netfilter", "node_values", "probe", "schema", "survey", "tools"),
    )
}
# Module on the judging side -> why it imports code that configures.
ACROSS = {
    "src/fullmesh/cluster_status.py": "shows what the preflight says of drift and pending changes",
    "src/fullmesh/filters/observe/watch.py": "the same",
    "src/fullmesh/roles/torch_locks.py": "the command that locks torch for the role",
}
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
        if not isinstance(node, (ast.Import, ast.ImportFrom)):
            continue
        for name in node.names:
            own = name.name.rpartition(".")[2].removeprefix("fullmesh_")
            if name.asname and own not in name.asname and is_module(node, name.name):
                whole = f"{getattr(node, 'module', None) or ''}.{name.name}".lstrip(".")
                if (whole, name.asname) not in USUAL_ALIASES:
                    yield whole, name.asname


def is_module(node: ast.Import | ast.ImportFrom, name: str) -> bool:
    return isinstance(node, ast.Import) or (name.islower() and name in MODULES)


def find_package(module: str) -> str:
    """Find what a module belongs to: the folder, or file, below src/fullmesh or module_utils/fullmesh."""
    for top in ("fullmesh", NODE_CODE):
        if module.startswith(f"{top}."):
            return f"{top}.{module.removeprefix(f'{top}.').partition('.')[0]}"
    return ""


def name_module(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    places = {"src": "", "module_utils": "ansible.module_utils."}
    return places[parts[0]] + ".".join(parts[1:]) if parts[0] in places else ""


def list_runtime_imports(module: str, tree: ast.AST) -> Iterator[str]:
    """List the modules, or names in them, that a module imports when it runs, at its top or later."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            yield from list_runtime_imports(module, ast.Module(node.orelse, []))
        elif isinstance(node, ast.Import):
            yield from (name.name for name in node.names)
        elif isinstance(node, ast.ImportFrom):
            above = module.split(".")[: -node.level] if node.level else []
            base = ".".join([*above, *([node.module] if node.module else [])])
            yield from (f"{base}.{name.name}" for name in node.names)
        else:
            yield from list_runtime_imports(module, node)


def map_package_imports(trees: Mapping[str, ast.Module]) -> dict[str, set[str]]:
    """Map each package to those that its modules import."""
    found: dict[str, set[str]] = defaultdict(set)
    for module, tree in trees.items():
        own = find_package(module)
        found[own] |= {find_package(name) for name in list_runtime_imports(module, tree)}
        found[own] -= {own, ""}
    return dict(found)


def find_import_cycle(imports: Mapping[str, Collection[str]]) -> list[str]:
    """Find packages that import each other in a circle, the first again at the end; [] for none."""
    try:
        graphlib.TopologicalSorter(imports).prepare()
    except graphlib.CycleError as error:
        return list(error.args[1])
    return []


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


def test_no_packages_import_each_other() -> None:
    trees = {module: tree for path, tree in TREES.items() if (module := name_module(path))}
    imports = map_package_imports(trees)
    assert "fullmesh.result" in imports["fullmesh.verify"]
    assert f"{NODE_CODE}.state" in imports[f"{NODE_CODE}.packages"]
    assert find_import_cycle(imports) == []


def find_configuring_imports(module: str, tree: ast.Module) -> set[str]:
    """Find the packages that decide the state of a node among the imports of a module."""
    found = {find_package(name) for name in list_runtime_imports(module, tree)} - SHARED
    return {one for one in found if one.startswith(NODE_CODE) or one == "fullmesh.roles"}


def test_judging_code_imports_no_configuring_code() -> None:
    """The other direction: test_code_digest. A module that the digest of code counts decides the state of a node."""
    counted = {(ROOT / name).resolve() for name in list_digest_files()}
    judging = {path: tree for path, tree in TREES.items() if path not in counted}
    names = {str(path.relative_to(ROOT)) for path in judging}
    assert {"module_utils/fullmesh/probe/pairs.py", "src/fullmesh/causes/engine.py"} <= names
    found = {
        str(path.relative_to(ROOT))
        for path, tree in judging.items()
        if find_configuring_imports(name_module(path) or path.stem, tree)
    }
    assert found == set(ACROSS)


def test_the_schema_has_one_name_in_each_process() -> None:
    """Nodes import it from Ansible's module_utils, the controller through the link src/fullmesh/observed."""
    controller = [path for path in TREES if path.relative_to(ROOT).parts[0] in CONTROLLER]
    assert len(controller) > 100
    found = [
        str(path.relative_to(ROOT))
        for path in controller
        if any(
            name.startswith(NODE_CODE)
            for name in list_runtime_imports(name_module(path), TREES[path])
        )
    ]
    assert found == []


def test_an_import_across_the_wall_is_found() -> None:
    survey, judge = f"{NODE_CODE}.survey.net", "fullmesh.verify.node"
    text = "from ..network import links\nfrom ..tools import ip"
    assert find_configuring_imports(survey, ast.parse(text)) == {f"{NODE_CODE}.network"}
    text = "from fullmesh.roles import torch_runtime\nfrom fullmesh.model import locks"
    assert find_configuring_imports(judge, ast.parse(text)) == {"fullmesh.roles"}


@pytest.mark.parametrize(
    ("last", "circle"),
    [
        ("import fullmesh.a.x", True),
        ("from fullmesh import a", True),
        ("from fullmesh.a import x", True),
        ("from ..a.x import y", True),
        ("def work():\n    from ..a import x", True),
        ("if TYPE_CHECKING:\n    pass\nelse:\n    from ..a import x", True),
        ("if TYPE_CHECKING:\n    from ..a import x", False),
        ("from . import a", False),
        ("from fullmesh.d import a", False),
    ],
)
def test_a_circle_of_three_packages_is_found(last: str, circle: bool) -> None:
    texts = {
        "fullmesh.a.one": "from fullmesh.b import two",
        "fullmesh.b.two": "from ..c import three",
        "fullmesh.c.three": last,
    }
    imports = map_package_imports({name: ast.parse(text) for name, text in texts.items()})
    found = find_import_cycle(imports)
    assert set(found) == ({"fullmesh.a", "fullmesh.b", "fullmesh.c"} if circle else set())


MOST_TOP_LEVEL = 34


def test_the_top_level_is_small_and_described() -> None:
    listed = subprocess.run(
        ["git", "ls-files", "-c"], cwd=ROOT, check=True, capture_output=True, text=True
    ).stdout.splitlines()
    entries = {name.partition("/")[0] for name in listed if (ROOT / name).exists()}
    assert len(entries) <= MOST_TOP_LEVEL
    page = (ROOT / "docs/architecture.md").read_text().partition("## The tree")[2]
    rows = re.findall(r"^\| (`.+?) \|", page.partition("\n## ")[0], re.MULTILINE)
    described = [name.strip("/") for row in rows for name in re.findall(r"`([^`]+)`", row)]
    assert sorted(described) == sorted(entries)


def run_uv(*words: str) -> str:
    """Run uv without a network, under the Python of the tests; what it prints."""
    command = ["uv", *words, "--offline", "--no-config", "--python", sys.executable]
    return subprocess.run(
        command, cwd=ROOT, check=True, capture_output=True, text=True, timeout=60
    ).stdout


def test_the_lock_is_that_of_the_project() -> None:
    run_uv("lock", "--check")


@pytest.mark.parametrize("name", dev.EXPORTED)
def test_the_files_for_pip_are_those_of_the_lock(name: str) -> None:
    exported = dev.join_hash_lines(run_uv(*dev.EXPORT, *dev.EXPORTED[name]))
    assert exported == (ROOT / name).read_text()


def test_the_lock_names_the_public_index_alone() -> None:
    """Not that of the machine that wrote it."""
    hosts = set(re.findall(r"\w+://([^/\"]+)", (ROOT / "uv.lock").read_text()))
    assert hosts == {"pypi.org", "files.pythonhosted.org"}
