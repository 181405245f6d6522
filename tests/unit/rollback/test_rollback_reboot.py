"""The rollback after a reboot."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from ansible.module_utils.fullmesh.transaction import engine as transaction_engine
from rollback_machine import NAME, RollbackNode


def simulate_reboot(node: RollbackNode) -> None:
    journal = json.loads((node.folder / "journal.json").read_text())
    journal["boot"] = "another boot"
    (node.folder / "journal.json").write_text(json.dumps(journal))


def test_reboot_restores_files_and_runs_commands(node: RollbackNode) -> None:
    path, ran = node.etc / "file", node.root / "ran"
    path.write_text("before")
    node.arm(
        path, commands=[["touch", f"{ran}-not"]], boot=[["touch", str(ran)]], links=["no-such"]
    )
    path.write_text("after")
    simulate_reboot(node)
    node.run_engine("boot", str(node.store))
    assert path.read_text() == "before"
    assert (ran.exists(), Path(f"{ran}-not").exists()) == (True, False)
    assert "restarted" in transaction_engine.report_of(NAME)["why"]
    assert not node.units.exists()


def test_without_boot_commands_the_default_ones_run_once(
    node: RollbackNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, ran = node.etc / "file", node.root / "ran"
    path.write_text("before")
    node.arm(path, commands=[["touch", str(ran)]])
    path.write_text("after")
    simulate_reboot(node)
    commands: list[Any] = []
    monkeypatch.setattr(
        transaction_engine,
        "run_with_deadline",
        lambda command, *_: commands.append(command) or (0, ""),
    )
    transaction_engine.restore_at_boot(str(node.store))
    monkeypatch.undo()
    assert path.read_text() == "before"
    assert not ran.exists()
    assert "--property=After=multi-user.target" in commands[-1]
    # after a power failure here, the next boot repeats it
    assert (node.units / transaction_engine.BOOT).exists()
    node.run_engine(*commands[-1][-2:])
    assert ran.exists()
    assert not node.units.exists()
    assert transaction_engine.state_of(str(node.folder)) == "fired"


def test_interrupted_confirmation_counts(node: RollbackNode) -> None:
    path = node.etc / "file"
    node.arm(path)
    path.write_text("after")
    assert transaction_engine.claim_transaction(str(node.folder), "confirmed")
    node.run_engine("boot", str(node.store))
    assert path.read_text() == "after"
    assert not node.folder.exists()
    assert not node.units.exists()
