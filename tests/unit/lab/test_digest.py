"""Equal sources have the same digest, and each change gives another one."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from devtools.lab import digest


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    root = tmp_path / "lab"
    (root / "common").mkdir(parents=True)
    (root / "common" / "a.sh").write_text("echo a\n")
    (root / "list").write_text("x\n")
    return root


def compute_digest(root: Path, *options: str) -> str:
    return digest.stage(root, [root / "common", root / "list"], options)


def test_place_and_time_do_not_change_the_digest(tree: Path, tmp_path: Path) -> None:
    copy = tmp_path / "elsewhere"
    shutil.copytree(tree, copy)
    assert compute_digest(copy) == compute_digest(tree)


def test_content_changes_the_digest(tree: Path) -> None:
    before = compute_digest(tree)
    (tree / "list").write_text("y\n")
    assert compute_digest(tree) != before


def test_file_name_changes_the_digest(tree: Path) -> None:
    before = compute_digest(tree)
    (tree / "common" / "a.sh").rename(tree / "common" / "b.sh")
    assert compute_digest(tree) != before


def test_file_mode_changes_the_digest(tree: Path) -> None:
    before = compute_digest(tree)
    (tree / "common" / "a.sh").chmod(0o755)
    assert compute_digest(tree) != before


def test_options_change_the_digest(tree: Path) -> None:
    assert compute_digest(tree, "bookworm") != compute_digest(tree, "trixie")


def test_python_caches_do_not_change_the_digest(tree: Path) -> None:
    before = compute_digest(tree)
    (tree / "common" / "__pycache__").mkdir()
    (tree / "common" / "__pycache__" / "x.pyc").write_bytes(b"x")
    assert compute_digest(tree) == before
