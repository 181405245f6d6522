"""Same sources, same digest; any change, another one."""

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


def stage(root: Path, *words: str) -> str:
    return digest.stage(root, [root / "common", root / "list"], words)


def test_place_and_time_do_not_count(tree: Path, tmp_path: Path) -> None:
    copy = tmp_path / "elsewhere"
    shutil.copytree(tree, copy)
    assert stage(copy) == stage(tree)


def test_content_counts(tree: Path) -> None:
    before = stage(tree)
    (tree / "list").write_text("y\n")
    assert stage(tree) != before


def test_name_counts(tree: Path) -> None:
    before = stage(tree)
    (tree / "common" / "a.sh").rename(tree / "common" / "b.sh")
    assert stage(tree) != before


def test_mode_counts(tree: Path) -> None:
    before = stage(tree)
    (tree / "common" / "a.sh").chmod(0o755)
    assert stage(tree) != before


def test_words_count(tree: Path) -> None:
    assert stage(tree, "bookworm") != stage(tree, "trixie")


def test_python_caches_do_not_count(tree: Path) -> None:
    before = stage(tree)
    (tree / "common" / "__pycache__").mkdir()
    (tree / "common" / "__pycache__" / "x.pyc").write_bytes(b"x")
    assert stage(tree) == before
