"""A node's Python keeps the compiled code of zip files, with unchanged behaviour."""

from __future__ import annotations

import os
import subprocess
import sys
import time
import zipfile
from pathlib import Path

import pytest

from devtools.lab import lifecycle
from devtools.lab.paths import Paths
from fullmesh.settings import ROOT

IMPORT = "import sys, lab_compiled; lab_compiled.install(sys.argv[1]); sys.path.insert(0, sys.argv[2]); import said"


def import_from(folder: Path, archive: Path) -> subprocess.CompletedProcess[str]:
    """Import ``said`` from the archive in a new Python that keeps code in *folder*."""
    return subprocess.run(
        [sys.executable, "-c", IMPORT, str(folder), str(archive)],
        env={**os.environ, "PYTHONPATH": str(ROOT / "lab/common")},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )


def write_archive(place: Path, text: str) -> Path:
    with zipfile.ZipFile(place, "w") as archive:
        archive.writestr("said.py", text)
    return place


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "compiled").mkdir()
    return tmp_path / "compiled"


def test_compiled_code_is_stored_once_and_reused(tmp_path: Path, folder: Path) -> None:
    archive = write_archive(tmp_path / "one.zip", "print('first')")
    assert import_from(folder, archive).stdout == "first\n"
    (kept,) = folder.iterdir()
    other = write_archive(tmp_path / "two.zip", "print('other')")
    assert import_from(folder, other).stdout == "other\n"
    # the kept file is the code that runs
    (swapped,) = set(folder.iterdir()) - {kept}
    kept.write_bytes(swapped.read_bytes())
    assert import_from(folder, archive).stdout == "other\n"


def test_traceback_names_the_imported_archive(tmp_path: Path, folder: Path) -> None:
    text = "def run():\n    raise ValueError\nrun()"
    for name in ("one.zip", "two.zip"):
        errors = import_from(folder, write_archive(tmp_path / name, text)).stderr
        assert errors.count(f'File "{tmp_path / name}/said.py", line') == 2
    assert len(list(folder.iterdir())) == 1


@pytest.mark.parametrize("garbage", [b"", b"\xe3\x00", b"not code at all", b"i\x01\x00\x00\x00"])
def test_a_damaged_compiled_file_is_compiled_again(
    tmp_path: Path, folder: Path, garbage: bytes
) -> None:
    archive = write_archive(tmp_path / "one.zip", "print('right')")
    import_from(folder, archive)
    (kept,) = folder.iterdir()
    kept.write_bytes(garbage)
    done = import_from(folder, archive)
    assert (done.stdout, done.stderr) == ("right\n", "")
    assert kept.read_bytes() != garbage


def test_code_is_compiled_without_a_writable_folder(tmp_path: Path, folder: Path) -> None:
    archive = write_archive(tmp_path / "one.zip", "print('right')")
    import_from(folder, archive)
    (kept,) = folder.iterdir()
    kept.unlink()
    kept.mkdir()  # a rename cannot replace a folder
    done = import_from(folder, archive)
    assert (done.stdout, done.stderr) == ("right\n", "")
    assert [entry.name for entry in folder.iterdir()] == [kept.name]


def test_without_the_folder_python_is_unchanged(tmp_path: Path) -> None:
    check = "import lab_compiled, zipimport as z; before = z._compile_source; lab_compiled.install('/nowhere')"
    done = subprocess.run(
        [sys.executable, "-c", f"{check}; print(before is z._compile_source)"],
        env={**os.environ, "PYTHONPATH": str(ROOT / "lab/common")},
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    assert done.stdout == "True\n"


def test_old_compiled_files_are_deleted(paths: Paths) -> None:
    paths.home.mkdir(parents=True, exist_ok=True)
    folder = lifecycle.kept_code(paths)
    for name, age in (("old", 8), ("new", 6)):
        (folder / name).touch()
        then = time.time() - age * 86400
        os.utime(folder / name, (then, then))
    lifecycle.kept_code(paths)
    assert [file.name for file in folder.iterdir()] == ["new"]
