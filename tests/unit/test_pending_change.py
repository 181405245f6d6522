"""library/pending_change.py: an unconfirmed change ends before anything else is restored."""

from __future__ import annotations

import json
import threading
from pathlib import Path
from typing import Any

import pending_change
import pytest
from ansible.module_utils.fullmesh.transaction import engine
from ansible.module_utils.testing import patch_module_args
from rehearsal import rehearse_rollback

NAME = "peer_firewall"


def run(argv: list[str]) -> tuple[int, str]:
    rehearse_rollback(argv)
    return 0, ""


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file that a killed run has changed and not confirmed."""
    monkeypatch.setattr(engine, "STORE", str(tmp_path / "store"))
    monkeypatch.setattr(engine, "UNITS", str(tmp_path / "units"))
    path = tmp_path / "zone"
    path.write_text("before")
    engine.arm(run, NAME, 30, [str(path)], [])
    path.write_text("after")
    return path


def age(tmp_path: Path) -> None:
    """Let the timer's time be over."""
    journal = tmp_path / "store" / NAME / "journal.json"
    journal.write_text(json.dumps(json.loads(journal.read_text()) | {"monotonic": -1e9}))


def test_nothing_is_pending_if_nothing_was_armed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine, "STORE", str(tmp_path / "none"))
    assert pending_change.list_pending_names() == []


def test_it_waits_for_the_timer(file: Path) -> None:
    assert pending_change.list_pending_names() == [NAME]
    timer = threading.Timer(
        0.5, engine.restore_transaction, (engine.folder(NAME), "nobody came back")
    )
    timer.start()
    pending_change.wait_for_change_end(run, NAME)
    assert file.read_text() == "before"
    assert pending_change.list_pending_names() == []
    timer.join()


def test_a_change_without_timer_is_ended(file: Path, tmp_path: Path) -> None:
    age(tmp_path)

    def systemd(argv: list[str]) -> tuple[int, str]:
        if argv[0] == "systemd-run" and not rehearse_rollback(argv):
            engine.restore_transaction(argv[argv.index("restore") + 1], "ended")
        return 0, ""

    pending_change.wait_for_change_end(systemd, NAME)
    assert file.read_text() == "before"
    assert pending_change.list_pending_names() == []


def called(capsys: pytest.CaptureFixture[str], check: bool) -> dict[str, Any]:
    """What Ansible gets from the module."""
    with patch_module_args({"_ansible_check_mode": check}), pytest.raises(SystemExit):
        pending_change.main()
    return dict(json.loads(capsys.readouterr().out))


def test_one_that_does_not_end_stops_the_undo(
    file: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    age(tmp_path)
    monkeypatch.setattr(engine, "RESTORE_SECONDS", 0.3)
    monkeypatch.setattr(engine, "run_systemd_run", lambda *_: (0, ""))
    assert called(capsys, check=True)["left"] == [NAME]
    assert "[TX-107]" in called(capsys, check=False)["msg"]
    assert file.read_text() == "after"


def test_a_pending_change_is_listed_with_its_seconds(file: Path, tmp_path: Path) -> None:
    assert file.exists()
    (change,) = engine.list_pending_changes()
    assert (change["name"], change["what"]) == (NAME, NAME)
    assert 25 < change["seconds"] <= 30
    age(tmp_path)
    assert engine.list_pending_changes()[0]["seconds"] == 0
    (tmp_path / "store" / NAME / "journal.json").write_text("{")
    assert [one["name"] for one in engine.list_pending_changes()] == [NAME]
    assert engine.claim_transaction(engine.folder(NAME), "confirmed")
    assert engine.list_pending_changes() == []
