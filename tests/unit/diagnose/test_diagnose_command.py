"""Diagnosis: the command line."""

from __future__ import annotations

import copy
import json
import os
from pathlib import Path

import pytest
from causes.cases import CHANGES
from diagnosis_cases import HEALTHY
from records import diagnose_answers as judged

from fullmesh import cli
from fullmesh.verbs import diagnose as diagnose_cli


@pytest.mark.parametrize(
    ("program", "words"),
    [
        ("echo '[ERROR] no hosts'; exit 4", ["no hosts", "Ansible failed"]),
        ("exec sleep 60", ["the deadline passed"]),
    ],
)
def test_a_run_without_a_result_is_no_verdict(
    program: str,
    words: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    fake = tmp_path / "ansible-playbook"
    fake.write_text(f"#!/bin/sh\n{program}\n")
    fake.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setattr(diagnose_cli, "RUNS", tmp_path / "runs")
    assert cli.main(["diagnose", "-i", str(tmp_path), "--deadline", "1"]) == cli.USAGE
    said = capsys.readouterr().err
    assert "[CL-112]" in said
    for word in words:
        assert word in said


def test_an_inventory_that_is_not_there(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["diagnose", "-i", "inventory/none"]) == cli.USAGE
    assert "[CL-106]" in capsys.readouterr().err


@pytest.mark.parametrize(("broken", "code"), [("", 0), ("proxy", 0), ("shm", 1)])
def test_the_exit_code_and_the_text(
    broken: str, code: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    world = copy.deepcopy(HEALTHY)
    if broken:
        CHANGES[broken][2](world)
    (tmp_path / "result.json").write_text(json.dumps(judged(world)))
    assert (
        diagnose_cli.print_diagnosis(tmp_path, tmp_path / "log", as_json=False, in_time=True)
        == code
    )
    text = capsys.readouterr().out
    assert (CHANGES[broken][0] if broken else "NOTHING WRONG FOUND") in text
    assert (
        diagnose_cli.print_diagnosis(tmp_path, tmp_path / "log", as_json=True, in_time=True) == code
    )
    assert json.loads(capsys.readouterr().out)["kind"] == "diagnose"
