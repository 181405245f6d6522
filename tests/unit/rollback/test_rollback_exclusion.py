"""The rollback: concurrent changes, and the end of the guard."""

from __future__ import annotations

import errno
import json
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from ansible.module_utils.fullmesh.transaction import engine as transaction_engine
from rollback_machine import NAME, RollbackNode


def test_a_second_change_is_refused_with_start_and_owner(node: RollbackNode) -> None:
    node.arm(what="addresses of eth0")
    since = json.loads((node.folder / "journal.json").read_text())["since"]
    for name in (NAME, "peer_firewall"):
        with pytest.raises(
            transaction_engine.RollbackError, match=r"\[TX-101\] The change 'static_ip'"
        ) as caught:
            transaction_engine.arm(node.run, name, 30, [], [])
        assert since in str(caught.value)
    assert transaction_engine.disarm(node.run, NAME) == "disarmed"
    transaction_engine.arm(node.run, "peer_firewall", 30, [], [])


def test_two_changes_armed_at_once_exclude_each_other(
    node: RollbackNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transaction_engine, "LOCK_SECONDS", 0)
    node.store.mkdir()
    with transaction_engine.hold_lock(str(node.store / "lock"), 0):  # noqa: SIM117 (the call that raises is alone)
        with pytest.raises(transaction_engine.RollbackError, match=r"\[TX-101\]"):
            node.arm()


def test_the_next_run_reverts_a_transaction_without_guard(node: RollbackNode) -> None:
    path = node.etc / "file"
    path.write_text("before")
    node.arm(path)
    path.write_text("after")
    node.pass_time(1000)
    node.arm(path)
    assert path.read_text() == "before"
    assert transaction_engine.state_of(str(node.folder)) == "armed"


@pytest.mark.parametrize("turn", range(12))
def test_a_confirmation_at_the_deadline_wins_or_loses_completely(
    node: RollbackNode, turn: int
) -> None:
    path = node.etc / "file"
    path.write_text("before")
    node.arm(path)
    path.write_text("after")
    with ThreadPoolExecutor(2) as pool:

        def confirm() -> str:
            time.sleep(0.01 * turn)
            return str(transaction_engine.disarm(node.run, NAME))

        confirmed = pool.submit(confirm)
        pool.submit(node.run_engine, "restore", str(node.folder)).result()
        result = confirmed.result()
    assert (result, path.read_text()) in (("disarmed", "after"), ("fired", "before"))
    assert not node.folder.exists()


def test_late_guard_does_not_revert_the_next_change(node: RollbackNode) -> None:
    path = node.etc / "file"
    node.arm(path)
    late = node.list_guards()[-1]
    token = late[-1].split()[-2]
    assert transaction_engine.disarm(node.run, NAME) == "disarmed"
    node.arm(path)
    path.write_text("after")
    assert not transaction_engine.claim_transaction(str(node.folder), "restoring", token)
    # the old guard's shell finds the script of the new transaction
    subprocess.run(late[late.index("/bin/sh") :], check=True, timeout=60)
    assert transaction_engine.state_of(str(node.folder)) == "armed"
    assert path.read_text() == "after"
    new = node.list_guards()[-1]
    node.pass_time(28)
    subprocess.run(new[new.index("/bin/sh") :], check=True, timeout=60)
    assert transaction_engine.report_of(NAME)["after"] >= 30, "it has not waited for the end"
    assert not path.exists()
    assert "not confirmed in time" in transaction_engine.report_of(NAME)["why"]


@pytest.mark.parametrize("end", ["confirmed", "reverted", "reverted, then another"])
def test_a_guard_ends_with_its_change(node: RollbackNode, end: str) -> None:
    """A confirmation or rollback also ends the guard. If it was killed before that, the guard ends by itself."""
    path = node.etc / "file"
    node.arm(path)
    guard = node.list_guards()[-1]
    with subprocess.Popen(guard[guard.index("/bin/sh") :]) as process:
        assert process.poll() is None
        if end == "confirmed":
            assert transaction_engine.claim_transaction(str(node.folder), "confirmed")
        else:
            node.run_engine("restore", str(node.folder))
        if end == "reverted, then another":
            assert transaction_engine.disarm(node.run, NAME) == "fired"
            node.arm(path)
        assert process.wait(20) == 0
    assert transaction_engine.state_of(str(node.folder)) == {
        "confirmed": "confirmed",
        "reverted": "fired",
    }.get(end, "armed")


def test_guard_does_not_stop_itself(node: RollbackNode, monkeypatch: pytest.MonkeyPatch) -> None:
    stopped: list[list[str]] = []
    monkeypatch.setattr(
        transaction_engine,
        "run_with_deadline",
        lambda command, *_: (stopped.append(command), (0, ""))[1],
    )
    guard = transaction_engine.build_stop_guard(NAME)
    node.arm(node.etc / "file")
    node.pass_time(30)
    transaction_engine.run_guard(str(node.folder), node.list_guards()[-1][-1].split()[-2])
    assert transaction_engine.state_of(str(node.folder)) == "fired"
    assert guard not in stopped
    node.calls.clear()
    transaction_engine.disarm(node.run, NAME)
    assert guard in node.calls
    node.arm(node.etc / "file")
    transaction_engine.restore_transaction(str(node.folder), "the test says so")
    assert guard in stopped


def test_unreadable_journal_keeps_the_change_armed(
    node: RollbackNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After "too many open files" or a disk error, the rollback once regarded the change as over and ended."""
    node.arm(node.etc / "file")
    token = node.list_guards()[-1][-1].split()[-2]
    journal = node.folder / "journal.json"
    text = journal.read_text()
    journal.unlink()
    journal.mkdir()
    for words in (["guard"], ["restore"]):
        command = [sys.executable, str(node.store / "engine.py"), *words, str(node.folder), "", "0"]
        assert subprocess.run([*command, token], check=False, timeout=60).returncode == 1
    assert transaction_engine.state_of(str(node.folder)) == "armed"

    journal.rmdir()
    journal.write_text(text)
    reads: list[str] = []
    read_journal = transaction_engine.journal_of

    def fail_second_read(directory: str) -> Any:
        if len(reads) == 1:
            reads.append(directory)
            raise OSError(errno.EMFILE, "Too many open files")
        reads.append(directory)
        return read_journal(directory)

    monkeypatch.setattr(transaction_engine, "journal_of", fail_second_read)
    monkeypatch.setattr(transaction_engine.time, "sleep", lambda _seconds: node.pass_time(20))
    transaction_engine.run_guard(str(node.folder), token)
    assert transaction_engine.state_of(str(node.folder)) == "fired"


def test_running_rollback_is_not_stopped(
    node: RollbackNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A confirmation waits for a running rollback, and does not stop it when the wait takes too long."""
    node.arm(node.etc / "file")
    assert transaction_engine.claim_transaction(str(node.folder), "restoring")
    monkeypatch.setattr(transaction_engine, "RESTORE_SECONDS", 0)
    node.calls.clear()
    assert transaction_engine.disarm(node.run, NAME) == "fired"
    assert node.calls == []
    assert transaction_engine.state_of(str(node.folder)) == "restoring"


def test_guard_without_its_script_succeeds(node: RollbackNode) -> None:
    node.arm()
    guard = node.calls[-1]
    transaction_engine.disarm(node.run, NAME)
    subprocess.run(guard[guard.index("/bin/sh") :], check=True, timeout=60)


def test_systemd_can_reload_the_guard_unit(node: RollbackNode) -> None:
    """Found by tests/cuts/test_drawn_cuts.py: after a daemon-reload it started, and its script did nothing.

    systemd 252 writes a backslash before these characters in a unit, and does not remove it when it
    reads the unit.
    """
    node.arm(node.etc / "file")
    assert not set("$`\\") & set("".join(node.list_guards()[0]))


def test_claims_exclude_each_other(node: RollbackNode) -> None:
    for _ in range(30):
        node.arm()
        with ThreadPoolExecutor(4) as pool:
            words = ["confirmed", "restoring"] * 2
            won = list(
                pool.map(
                    lambda result: transaction_engine.claim_transaction(str(node.folder), result),
                    words,
                )
            )
        assert won.count(True) == 1
        (node.folder / "fired").touch()
        transaction_engine.disarm(node.run, NAME)
