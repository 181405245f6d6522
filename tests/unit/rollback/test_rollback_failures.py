"""The rollback: full disks, units that do not start, damaged journals, killed runs."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from ansible.module_utils.fullmesh.transaction import engine as transaction_engine
from rehearsal import rehearse_rollback
from rollback_machine import NAME, RollbackNode, describe_files, write_sample_files


def test_full_disk_during_the_backup_arms_nothing(
    node: RollbackNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    paths = write_sample_files(node)
    before = describe_files(node.etc)
    write_file = transaction_engine.write_file
    for number in range(7):
        written: list[str] = []

        def fail_without_space(
            path: str, data: bytes, mode: int, at: int = number, seen: Any = written
        ) -> None:
            seen.append(path)
            if len(seen) > at:
                raise OSError(28, "No space left on device")
            write_file(path, data, mode)

        monkeypatch.setattr(transaction_engine, "write_file", fail_without_space)
        with pytest.raises(transaction_engine.RollbackError, match=r"\[TX-102\].*No space left"):
            node.arm(*paths)
        assert sorted(path.name for path in node.store.iterdir() if path.is_dir()) == []
        assert not node.units.exists()
    assert node.calls == []
    assert describe_files(node.etc) == before


@pytest.mark.parametrize("written_files", [0, 1])
def test_full_disk_during_the_plan_arms_nothing(
    node: RollbackNode, monkeypatch: pytest.MonkeyPatch, written_files: int
) -> None:
    paths = write_sample_files(node)
    before = describe_files(node.etc)
    node.arm(*paths)
    write_file, written = transaction_engine.write_file, []

    def fail_without_space(path: str, data: bytes, mode: int) -> None:
        written.append(path)
        if len(written) > written_files:
            raise OSError(28, "No space left on device")
        write_file(path, data, mode)

    monkeypatch.setattr(transaction_engine, "write_file", fail_without_space)
    with pytest.raises(transaction_engine.RollbackError, match=r"\[TX-102\].*No space left"):
        transaction_engine.apply_change(node.run, NAME, {}, [])
    assert not node.folder.exists()
    assert not node.units.exists()
    assert not [call for call in node.calls if call[0] == "systemd-run" and "apply" in call]
    assert describe_files(node.etc) == before


def test_guard_that_does_not_start_leaves_no_files(node: RollbackNode) -> None:
    node.rc = 1
    with pytest.raises(transaction_engine.RollbackError, match=r"\[TX-103\]"):
        node.arm(*write_sample_files(node))
    assert not node.folder.exists()
    assert not node.units.exists()


def test_rollback_that_cannot_run_prevents_the_change(node: RollbackNode) -> None:
    """As with a security policy that forbids it: systemd starts the unit, but the program does not run."""
    file = node.etc / "hosts"
    file.write_text("before")
    node.ignores_trial = True
    with pytest.raises(
        transaction_engine.RollbackError, match=r"\[TX-108\] The rollback does not run.*changed"
    ):
        node.arm(file)
    assert not node.folder.exists()
    assert not node.list_guards()
    assert not list(node.units.rglob("*"))


def test_rollback_that_would_fail_prevents_the_change(
    node: RollbackNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = node.etc / "hosts"
    file.write_text("before")
    with pytest.raises(
        transaction_engine.RollbackError, match=r"\[TX-108\].*there is no no-such-program"
    ):
        node.arm(file, commands=[["no-such-program", "reload"], "true"])
    with pytest.raises(
        transaction_engine.RollbackError, match=r"\[TX-108\].*a trial of a command fails: no way"
    ):
        transaction_engine.arm(
            node.run, NAME, 60, [str(file)], ["true"], trials=["true", "echo no way; exit 3"]
        )
    assert not node.folder.exists()
    node.ignores_trial = True  # run the engine in this process, where its calls can fail
    open_file = os.open

    def open_read_only(path: Any, flags: int, *more: Any, **named: Any) -> int:
        if flags & os.O_TMPFILE == os.O_TMPFILE:
            raise OSError(errno.EROFS, "Read-only file system")
        return open_file(path, flags, *more, **named)

    def run(argv: list[str]) -> tuple[int, str]:
        return (0, "") if rehearse_rollback(argv) else node.run(argv)

    monkeypatch.setattr(transaction_engine.os, "open", open_read_only)
    with pytest.raises(
        transaction_engine.RollbackError, match=r"\[TX-108\].*hosts: Read-only file system"
    ):
        transaction_engine.arm(run, NAME, 30, [str(file)], [])
    assert not node.folder.exists()
    assert file.read_text() == "before"


def test_only_the_run_that_armed_it_confirms_or_restores(node: RollbackNode) -> None:
    file = node.etc / "hosts"
    file.write_text("before")
    first = "first"
    node.arm(file, token=first)
    file.write_text("after")
    for other in ("second", ""):
        with pytest.raises(transaction_engine.RollbackError, match=r"\[TX-109\].*another run"):
            transaction_engine.disarm(node.run, NAME, other)
        with pytest.raises(transaction_engine.RollbackError, match=r"\[TX-109\]"):
            transaction_engine.undone(node.run, NAME, "why", other)
    assert transaction_engine.state_of(str(node.folder)) == "armed"
    assert transaction_engine.disarm(node.run, NAME, first) == "disarmed"
    assert file.read_text() == "after"
    assert transaction_engine.disarm(node.run, NAME, first) == "idle"


def test_an_unwritable_confirmation_leaves_the_change_to_the_guard(
    node: RollbackNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was regarded as a late confirmation: the guard was ended, and the change was never reverted."""
    node.arm(node.etc / "new")
    monkeypatch.setattr(
        transaction_engine, "claim_transaction", lambda directory, state, token="": False
    )
    node.calls.clear()
    with pytest.raises(transaction_engine.RollbackError, match=r"\[TX-110\].*reverts the change"):
        transaction_engine.disarm(node.run, NAME)
    assert node.calls == []
    assert transaction_engine.state_of(str(node.folder)) == "armed"


def test_rollback_that_cannot_begin_is_retried(
    node: RollbackNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    """That is no confirmation. The program fails, so that systemd starts it again."""
    node.arm(node.etc / "new")
    assert set(transaction_engine.AGAIN) <= set(node.list_guards()[0])
    with monkeypatch.context() as patch:
        patch.setattr(
            transaction_engine, "claim_transaction", lambda directory, state, token="": False
        )
        with pytest.raises(OSError, match="cannot be claimed"):
            transaction_engine.restore_transaction(str(node.folder), "the test says so")
    assert transaction_engine.state_of(str(node.folder)) == "armed"
    (node.folder / "journal.json").write_text('{"files": [1]}')
    command = [sys.executable, str(node.store / "engine.py"), "restore", str(node.folder)]
    assert subprocess.run(command, check=False, timeout=60).returncode == 1


def test_the_systems_python_runs_the_rollback(
    node: RollbackNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = node.etc / "hosts"
    file.write_text("before")
    monkeypatch.setattr(transaction_engine.sys, "executable", "/home/somebody/venv/bin/python3")
    node.arm(file)
    assert "/home" not in (node.folder / "back.sh").read_text()
    assert "/home" not in (node.units / transaction_engine.BOOT).read_text()


def test_arming_waits_for_a_stopping_unit(node: RollbackNode) -> None:
    answers = [(1, "Unit x.service was already loaded or has a fragment file."), (0, "")]

    def run(argv: list[str]) -> tuple[int, str]:
        guard = argv[0] == "systemd-run" and not rehearse_rollback(argv)
        return answers.pop(0) if guard else (0, "")

    transaction_engine.arm(run, NAME, 30, [], [])
    assert answers == []
    assert transaction_engine.state_of(str(node.folder)) == "armed"


def test_change_that_does_not_start_is_removed(node: RollbackNode) -> None:
    node.arm()
    node.rc = 1
    with pytest.raises(transaction_engine.RollbackError, match=r"\[TX-103\]"):
        transaction_engine.apply_change(node.run, NAME, {}, [])
    assert not node.folder.exists()


def test_directory_instead_of_a_file_is_rejected(node: RollbackNode) -> None:
    (node.etc / "dir").mkdir()
    with pytest.raises(transaction_engine.RollbackError, match=r"\[TX-106\]"):
        node.arm(node.etc / "dir")
    assert not node.folder.exists()
    assert not node.units.exists()


def test_full_disk_does_not_prevent_the_rollback(
    node: RollbackNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = node.etc / "file"
    path.write_text("before")
    node.arm(path)
    path.write_text("a longer text than before")

    def fail_without_space(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(transaction_engine, "write_file", fail_without_space)
    assert transaction_engine.restore_transaction(str(node.folder), "test")
    assert path.read_text() == "before"
    assert transaction_engine.state_of(str(node.folder)) == "fired"
    assert transaction_engine.disarm(node.run, NAME) == "fired"


def test_rollback_needs_no_new_file_name(
    node: RollbackNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = node.etc / "file"
    path.write_text("before")
    node.arm(path)
    path.write_text("after")
    write_file = os.open

    def open_without_space(name: Any, flags: int, *more: Any, **named: Any) -> int:
        if flags & os.O_CREAT and not os.path.exists(name):
            raise OSError(28, "No space left on device")
        return write_file(name, flags, *more, **named)

    monkeypatch.setattr(os, "open", open_without_space)
    assert transaction_engine.restore_transaction(str(node.folder), "test")
    assert path.read_text() == "before"
    assert transaction_engine.state_of(str(node.folder)) == "fired"
    assert transaction_engine.disarm(node.run, NAME) == "fired"
    assert not node.folder.exists()


def test_a_late_run_keeps_the_backup_of_an_unfinished_restore(
    node: RollbackNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = node.etc / "file"
    path.write_text("before")
    node.arm(path)
    path.write_text("after")
    assert transaction_engine.claim_transaction(str(node.folder), "restoring")
    monkeypatch.setattr(transaction_engine, "RESTORE_SECONDS", 0.3)
    assert transaction_engine.disarm(node.run, NAME) == "fired"
    assert transaction_engine.restore_transaction(str(node.folder), "the one that goes on")
    assert path.read_text() == "before"


def test_leftovers_of_a_killed_run_are_never_restored(node: RollbackNode) -> None:
    path = node.etc / "file"
    path.write_text("before")
    node.arm(path)
    (node.folder).rename(node.store / ".new-killed")  # before the rename that arms it
    path.write_text("confirmed since")
    node.run_engine("boot", str(node.store))
    assert path.read_text() == "confirmed since"
    node.arm(path)
    assert not (node.store / ".new-killed").exists()
    assert transaction_engine.state_of(str(node.folder)) == "armed"


def test_every_rename_is_on_disk_before_it_is_reported(
    node: RollbackNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    link, new = node.etc / "d/link", node.etc / "e/new"
    link.parent.mkdir()
    new.parent.mkdir()
    link.symlink_to("plain")
    node.arm(link, new)
    link.unlink()
    new.write_text("x")
    flushed: list[str] = []
    write_file = transaction_engine.flush_directory

    def record_flush(path: str) -> None:
        flushed.append(path)
        assert path == str(node.folder) or not (node.folder / "fired").exists()
        write_file(path)

    monkeypatch.setattr(transaction_engine, "flush_directory", record_flush)
    assert transaction_engine.restore_transaction(str(node.folder), "test")
    assert {str(link.parent), str(new.parent), str(node.units)} <= set(flushed)


def test_a_command_ends_without_waiting_for_its_children(tmp_path: Path) -> None:
    started = tmp_path / "pid"
    assert (
        transaction_engine.run_with_deadline(f"sleep 30 & echo $! > {started}; sleep 30", 1)[0]
        == 124
    )
    pid = int(started.read_text())
    assert Path(f"/proc/{pid}/cmdline").read_bytes()  # it still runs and has our pipe open
    os.kill(pid, signal.SIGTERM)


def test_a_script_is_reported_by_its_arguments() -> None:
    assert (
        transaction_engine.describe_command(["ip", "link", "delete", "bond0"])
        == "ip link delete bond0"
    )
    assert (
        transaction_engine.describe_command(
            ["/bin/sh", "-c", 'test -d "$0" || "$@"', "nmcli", "up"]
        )
        == "nmcli up"
    )
    assert (
        transaction_engine.describe_command(["/bin/sh", "-c", "firewall-cmd --reload"])
        == "/bin/sh -c firewall-cmd --reload"
    )


def test_failed_command_does_not_stop_the_others(node: RollbackNode) -> None:
    node.arm(commands=[["false"], "no-such-program", ["touch", str(node.root / "ran")]])
    node.run_engine("restore", str(node.folder))
    report = transaction_engine.report_of(NAME)
    assert [fault.split("`")[1] for fault in report["faults"]] == ["false", "no-such-program"]
    assert (node.root / "ran").exists()


def test_interrupted_restore_is_finished(node: RollbackNode) -> None:
    path = node.etc / "file"
    path.write_text("before")
    node.arm(path)
    path.write_text("after")
    assert transaction_engine.claim_transaction(str(node.folder), "restoring")
    node.run_engine("boot", str(node.store))
    assert path.read_text() == "before"
