"""What is built once is whole or not there."""

from __future__ import annotations

from pathlib import Path

import pytest

from devtools.lab import host
from devtools.lab.once import built
from devtools.lab.paths import Paths


def test_an_item_is_built_once_and_a_broken_build_is_ignored(paths: Paths) -> None:
    target, made = paths.cache / "thing-0123", []

    def breaks(work: Path) -> None:
        (work / "out/half").touch()
        raise RuntimeError("no space left")

    def make(work: Path) -> None:
        made.append(sorted(path.name for path in (work / "out").iterdir()))
        (work / "out/whole").touch()

    with pytest.raises(RuntimeError):
        built(paths, target, "a thing", breaks, 1)
    assert not target.exists()
    for _ in range(2):
        assert built(paths, target, "a thing", make, 1) == target
    assert made == [[]]
    assert [path.name for path in target.iterdir()] == ["whole"]
    assert not (paths.cache / "thing.work").exists()


def test_a_package_shows_by_its_program_or_by_a_file(tmp_path: Path) -> None:
    (tmp_path / "there.pc").touch()
    signs = {
        "a": "sh",
        "b": "no-such-program",
        "c": f"{tmp_path}/there.pc",
        "d": f"{tmp_path}/no.pc",
    }
    assert host.missing(signs) == ["b", "d"]
