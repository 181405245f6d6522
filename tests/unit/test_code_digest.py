"""Code that counts as new for the manifest: neither the checkout's folder nor reporting code matters."""

from __future__ import annotations

import ast
import shutil
from pathlib import Path

import pytest

from fullmesh.code_digest import CONFIGURING, OBSERVING, compute_code_digest, list_digest_files
from fullmesh.settings import ROOT


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """Copy the files that the digest may cover."""
    for top in sorted({one.partition("/")[0] for one in CONFIGURING}):
        shutil.copytree(
            ROOT / top,
            tmp_path / "lab/fullmesh" / top,
            ignore=shutil.ignore_patterns("__pycache__"),
            symlinks=True,
        )
    return tmp_path / "lab/fullmesh"


def digest(root: Path) -> str:
    """Return the digest as a new process computes it, because the filter caches it."""
    return compute_code_digest.__wrapped__(root)


def test_the_folder_of_the_checkout_makes_no_difference(checkout: Path) -> None:
    """A directory called lab above it once removed every file, and two versions had the same digest."""
    assert digest(checkout) == digest(ROOT)
    moved = checkout.parent.parent / "elsewhere"
    before = digest(checkout)
    checkout.rename(moved)
    assert digest(moved) == before
    assert len(list(list_digest_files(moved))) > 200


@pytest.mark.parametrize(
    "name",
    [
        "src/fullmesh/report/page.css",
        "src/fullmesh/report/page.html.j2",
        "src/fullmesh/explain/judge.py",
        "src/fullmesh/causes/engine.py",
        "src/fullmesh/verify/pairs.py",
        "roles/kernel_tuning/README.md",
        "library/ladder_node.py",
        "playbooks/undo.yml",
        "roles/kernel_tuning/tasks/__pycache__/x.pyc",
    ],
)
def test_a_change_of_reporting_code_reconfigures_no_node(checkout: Path, name: str) -> None:
    before = digest(checkout)
    (checkout / name).parent.mkdir(exist_ok=True)
    with (checkout / name).open("ab") as stream:
        stream.write(b"\n# another word\n")
    assert digest(checkout) == before


@pytest.mark.parametrize(
    "name",
    [
        "roles/cluster_env/templates/env.j2",
        "roles/kernel_tuning/defaults/main.yml",
        "roles/launchers/files/new",
        "library/undo_point.py",
        "node_programs/fullmesh_watch.py",
        "module_utils/fullmesh/network/backends/netplan.py",
        "src/fullmesh/filters/kernel_tuning.py",
        "playbooks/vars/wiring.yml",
        "src/fullmesh/model/plan.py",
    ],
)
def test_a_change_of_configuring_code_changes_the_digest(checkout: Path, name: str) -> None:
    before = digest(checkout)
    (checkout / name).parent.mkdir(exist_ok=True)
    with (checkout / name).open("ab") as stream:
        stream.write(b"\n# another word\n")
    assert digest(checkout) != before


def modules() -> dict[str, str]:
    """Map the names under which each of our modules is imported to its file."""
    found = {}
    for path in [*ROOT.glob("module_utils/**/*.py"), *ROOT.glob("src/fullmesh/**/*.py")]:
        name = str(path.relative_to(ROOT))
        inner = name.removeprefix("src/").removesuffix(".py").removesuffix("/__init__")
        key = f"ansible.{inner}" if inner.startswith("module_utils") else inner
        found[key.replace("/", ".")] = name
    return found


def imported(path: Path) -> set[str]:
    """List the dotted names that a file imports anywhere."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names |= {one.name for one in node.names}
        if isinstance(node, ast.ImportFrom):
            above = path.relative_to(ROOT).parts[: -node.level] if node.level else ()
            module = ".".join(
                [*(("ansible", *above) if above else ()), *([node.module] if node.module else [])]
            )
            names |= {module} | {f"{module}.{one.name}" for one in node.names}
    return names


def test_digested_code_imports_nothing_outside_the_digest() -> None:
    """Otherwise a change of omitted code would change a node without notice."""
    files, inside = modules(), {str(name) for name in list_digest_files()}
    wrong = [
        f"{name} imports {files[one]}"
        for name in sorted(inside)
        if name.endswith(".py")
        for one in sorted(imported(ROOT / name))
        if one in files and files[one] not in inside
    ]
    assert wrong == []


def test_each_line_of_the_list_means_a_file() -> None:
    assert [one for one in (*CONFIGURING, *OBSERVING) if not list(ROOT.glob(one))] == []
