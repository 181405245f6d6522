"""The module write_files: what it decides to write."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from ansible.module_utils.fullmesh import file_set as module


def item(path: Path, content: str = "x\n", mode: str = "0644") -> module.Wanted:
    return {"path": str(path), "content": content, "url": None, "mode": mode}


def test_only_what_differs_is_written(tmp_path: Path) -> None:
    same, other, mode, gone = (tmp_path / name for name in ("same", "other", "mode", "gone"))
    for path in (same, other, mode):
        path.write_text("x\n")
        path.chmod(0o644)
    files = [item(same), item(other, "y\n"), item(mode, mode="0755"), item(tmp_path / "new/file")]
    steps = module.plan_files(files, [str(gone)])
    assert [Path(step["path"]).name for step in steps] == ["other", "mode", "file"]
    assert module.plan_files([], [str(same)])[0]["after"]["exists"] is False


def test_a_directory_in_the_way_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="no regular file"):
        module.plan_files([item(tmp_path)], [])


def test_missing_directories_come_parents_first(tmp_path: Path) -> None:
    deep = tmp_path / "a/b"
    found = module.missing_directories([str(deep), str(tmp_path / "a"), str(tmp_path)])
    assert found == [str(tmp_path / "a"), str(deep)]


def test_a_diff_shows_content_and_mode(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_text("x\n")
    os.chmod(path, 0o600)
    assert module.show(module.observe(str(path))) == "mode 0600\nx\n"
    assert module.show(module.observe(str(tmp_path / "none"))) == ""
