"""A build that is shared by labs is complete or absent."""

from __future__ import annotations

from pathlib import Path

import pytest

from devtools.lab import host
from devtools.lab.once import built
from devtools.lab.paths import Paths


def test_item_is_built_once_after_a_failed_build(paths: Paths) -> None:
    target, builds = paths.cache / "thing-0123", []

    def fail_half_way(work: Path) -> None:
        (work / "out/half").touch()
        raise RuntimeError("no space left")

    def make(work: Path) -> None:
        builds.append(sorted(path.name for path in (work / "out").iterdir()))
        (work / "out/whole").touch()

    with pytest.raises(RuntimeError):
        built(paths, target, "a thing", fail_half_way, 1)
    assert not target.exists()
    for _ in range(2):
        assert built(paths, target, "a thing", make, 1) == target
    assert builds == [[]]
    assert [path.name for path in target.iterdir()] == ["whole"]
    assert not (paths.cache / "thing.work").exists()


def test_package_is_found_by_its_program_or_file(tmp_path: Path) -> None:
    (tmp_path / "there.pc").touch()
    packages = {
        "a": "sh",
        "b": "no-such-program",
        "c": f"{tmp_path}/there.pc",
        "d": f"{tmp_path}/no.pc",
    }
    assert host.missing(packages) == ["b", "d"]
