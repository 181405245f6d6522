"""The demo's faults: they are also in the tests of faults, and their undo restores the node."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from causes.cases import FAULTS
from causes.faults import TUNED

from devtools import demo
from devtools.breaks import BREAKS, NAMES, Break, edited
from fullmesh.causes.engine import index_cases
from fullmesh.codes import collect_codes


@pytest.mark.parametrize("one", BREAKS, ids=lambda one: one.case)
def test_the_demos_fault_is_one_that_diagnosis_names(one: Break) -> None:
    assert one.case in {fault.case for fault in FAULTS if fault.lab == TUNED}
    assert index_cases()[one.case][1].by == "lab"
    assert one.code in collect_codes()
    assert one.do != one.undo


def test_one_at_random_is_one_of_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(demo.random, "choice", lambda those: those[-1])
    assert demo.chosen("random").case == NAMES[-1]
    assert demo.chosen("shm").code == index_cases()["shm"][0].code


@pytest.mark.parametrize("fails", [False, True])
def test_a_file_is_restored_byte_by_byte(tmp_path: Path, fails: bool) -> None:
    path = tmp_path / "hosts"
    path.write_text("127.0.0.1 localhost\n")
    one = edited(
        "shm", "", str(path), 'false; cat "$OLD"' if fails else 'echo "127.0.0.1 el1"; cat "$OLD"'
    )
    done = subprocess.run(["sh", "-euc", one.do], check=False)
    if not fails:
        assert path.read_text() == "127.0.0.1 el1\n127.0.0.1 localhost\n"
    assert done.returncode == int(fails)
    for _ in range(2):  # undone twice, as by a demo after a killed one
        subprocess.run(["sh", "-euc", one.undo], check=True)
        assert path.read_text() == "127.0.0.1 localhost\n"
