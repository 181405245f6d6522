"""Questions to nodes: the node's side."""

from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from ansible.module_utils.fullmesh.ask import boot
from ask_connections import TEST, TOLD, ask, make_query, result, way

from fullmesh.ask import answers, program, rounds


@pytest.mark.usefixtures("_told")
def test_a_program_is_sent_once_and_replaces_the_older(private: Path, tmp_path: Path) -> None:
    private.mkdir(mode=0o700, parents=True)
    old = private / f"told-{'0' * 64}.aa"
    other = private / f"other-{'0' * 64}.aa"
    old.touch()
    other.touch()
    heard = tmp_path / "heard"
    # what goes over the wire to the node, measured by tee
    there = way(None, ssh=f'tee -a {heard} | /bin/sh -c "$1"')
    first = result(there, make_query(private, text="x"))
    once = heard.stat().st_size
    second = result(there, make_query(private, text="x"))
    assert first == second == {"changed": False, "text": "x", "ansible_facts": {"of": "it"}}
    assert heard.stat().st_size - once == once - len(program.build_query_program(TEST.module).data)
    kept = sorted(one.name.partition("-")[0] for one in private.iterdir())
    assert kept == ["other", "told"]
    assert not old.exists()
    (mine,) = private.glob("told-*")
    assert mine.stat().st_mode & 0o777 == 0o600


@pytest.mark.usefixtures("_told")
def test_a_program_that_is_not_kept_compiles_only_its_imports(tmp_path: Path) -> None:
    (tmp_path / "utils/fullmesh/told.py").write_text(
        f"{TOLD}\ndef unused():\n    from . import broken\n"
    )
    (tmp_path / "utils/fullmesh/broken.py").write_text("(")
    assert result(way(None), make_query("", text="x"))["text"] == "x"


@pytest.mark.usefixtures("_told")
@pytest.mark.parametrize("damage", [b"", b"x" * 100, b"half"])
def test_a_truncated_program_is_not_used(private: Path, damage: bytes) -> None:
    result(way(None), make_query(private, text="x"))
    (mine,) = private.glob("told-*")
    whole = mine.read_bytes()
    mine.write_bytes(whole[:200] if damage == b"half" else damage)
    assert result(way(None), make_query(private, text="y"))["text"] == "y"
    assert mine.read_bytes() == whole


@pytest.mark.usefixtures("_told")
def test_a_folder_that_others_can_enter_is_not_used(private: Path) -> None:
    private.mkdir(parents=True)
    private.chmod(0o755)
    outcome = ask(way(None), make_query(private, text="x"))
    assert isinstance(outcome, rounds.NodeReply)
    assert outcome.answer == {
        "python": sys.executable,
        "unkept": f"{private} can be changed by others than root",
        "result": {"text": "x", "ansible_facts": {"of": "it"}},
    }
    assert list(private.iterdir()) == []
    (warning,) = answers.describe_uncached_programs({"a": outcome, "b": outcome})
    assert warning.startswith("[AK-105] a, b: the program was not cached")


@pytest.mark.usefixtures("_told")
def test_a_full_disk_costs_only_that_it_travels_again(
    private: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "rename", full)
    question: Any = {"name": "told", "program": "0" * 64, "folder": str(private)}
    assert boot.cache_program(question, {}) == f"{private}: No space left on device"
    assert list(private.iterdir()) == []


def test_a_program_with_a_wrong_checksum_is_not_run(tmp_path: Path) -> None:
    question = make_query("", text="x")
    made = program.QueryProgram(b"not it", "0" * 64)
    line = question.line("M", made)
    done = subprocess.run(
        ["/bin/sh", "-c", program.build_query_command([sys.executable])],
        input=program.load_boot_program() + line + made.data,
        capture_output=True,
        cwd=tmp_path,
        check=True,
    )
    _, _, said = done.stdout.rpartition(b"\n")
    assert "6 received bytes do not match the program" in json.loads(said)["failed"]
