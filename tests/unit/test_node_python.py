"""Code for nodes loads with the oldest and the newest Python of nodes, in Ansible's layout."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from pythons import NODES, ROOT, copy_node_files, find_interpreter

# The first one runs on the controller, with amazon.aws. The others need PyTorch Lightning and torch.
ELSEWHERE = ("ec2_revoked_rules", "fullmesh_lightning", "fullmesh_burn_rank")
PROGRAMS = ("library", "node_programs", "roles/verify_cluster/files")
LOAD = """
import importlib.util, pathlib, sys

def load(path):
    spec = importlib.util.spec_from_file_location(pathlib.Path(path).stem, path)
    module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)

failed = []
for path in sys.argv[1:]:
    try:
        load(path) if path.endswith(".py") else importlib.import_module(path)
    except Exception as exc:
        failed.append(f"{path}: {type(exc).__name__}: {exc}")
print(sys.version_info[:2], *failed, sep="\\n")
sys.exit(bool(failed))
"""


@pytest.fixture(scope="module")
def node(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Make the part of Ansible that a node gets: its module_utils and ours."""
    top = copy_node_files(tmp_path_factory.mktemp("node"))
    assert (top / "ansible/module_utils/fullmesh/files.py").is_file()
    return top


@pytest.mark.parametrize("version", NODES)
def test_each_module_and_program_loads(version: str, node: Path) -> None:
    python = find_interpreter(version)
    if not python:
        pytest.skip(f"no Python {version} on this machine")
    folders = [ROOT / one for one in PROGRAMS]
    programs = [
        str(one)
        for folder in folders
        for one in sorted(folder.glob("*.py"))
        if one.stem not in ELSEWHERE
    ]
    shared = sorted((ROOT / "module_utils").rglob("*.py"))
    programs += [
        "ansible." + ".".join(one.relative_to(ROOT).with_suffix("").parts)
        for one in shared
        if one.stem != "__init__"
    ]
    # programs on nodes, installed or sent, find their neighbors in their own folder
    path = os.pathsep.join(str(one) for one in (node, *folders[1:]))
    done = subprocess.run(
        [python, "-c", LOAD, *programs],
        env={"PATH": os.environ["PATH"], "PYTHONPATH": path, "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.startswith(f"({version.replace('.', ', ')})")
