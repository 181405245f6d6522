"""The execution environment's definition: ansible-builder takes it, and what it would build in is there.

The image itself is not built: its base comes from a registry. What its last steps do, a hashed installation and that of
the collection, other tests of this folder do.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[2]
DEFINITION = ROOT / "execution-environment.yml"


@pytest.fixture(scope="module")
def context(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What ansible-builder makes of it: the folder in which an image is built."""
    top = tmp_path_factory.mktemp("environment")
    for name in (DEFINITION.name, "requirements.txt"):
        shutil.copy(ROOT / name, top)
    subprocess.run(
        [sys.executable, "-m", "fullmesh", "collection", "--to", top],
        env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
        check=True,
        capture_output=True,
    )
    done = subprocess.run(
        ["ansible-builder", "create", "-v3"],
        cwd=top,
        check=False,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    assert done.returncode == 0, done.stdout
    return top / "context"


def test_the_lock_and_the_collection_are_in_it(context: Path) -> None:
    built = context / "_build/fullmesh"
    assert (built / "requirements.txt").read_bytes() == (ROOT / "requirements.txt").read_bytes()
    assert len(list(built.glob("fullmesh-cluster-*.tar.gz"))) == 1


def test_the_image_installs_them_with_hashes_and_without_galaxy(context: Path) -> None:
    text = (context / "Containerfile").read_text()
    (install,) = [line for line in text.splitlines() if "fullmesh/requirements.txt" in line]
    assert "--require-hashes" in install
    (collection,) = [line for line in text.splitlines() if "collection install" in line]
    assert "--offline" in collection


def test_its_ansible_is_the_locks() -> None:
    """One version of ansible-core, not one and then another over it."""
    wanted = yaml.safe_load(DEFINITION.read_text())["dependencies"]["ansible_core"]["package_pip"]
    locked = re.search(r"^ansible-core==\S+", (ROOT / "requirements.txt").read_text(), re.MULTILINE)
    assert locked
    assert wanted == locked[0]
