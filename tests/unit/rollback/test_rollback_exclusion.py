"""The rollback: two changes at once, and the end of the guard."""

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
from rollback_machine import NAME, Machine


def test_a_second_change_is_refused_with_start_and_owner(node: Machine) -> None:
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
    node: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transaction_engine, "LOCK_SECONDS", 0)
    node.store.mkdir()
    with transaction_engine.hold_lock(str(node.store / "lock"), 0):  # noqa: SIM117 (the call that raises is alone)
        with pytest.raises(transaction_engine.RollbackError, match=r"\[TX-101\]"):
            node.arm()


def test_the_next_run_reverts_a_transaction_without_guard(node: Machine) -> None:
    path = node.etc / "file"
    path.write_text("before")
    node.arm(path)
    path.write_text("after")
    node.later(1000)
    node.arm(path)
    assert path.read_text() == "before"
    assert transaction_engine.state_of(str(node.folder)) == "armed"


@pytest.mark.parametrize("turn", range(12))
def test_a_confirmation_at_the_deadline_wins_or_loses_completely(node: Machine, turn: int) -> None:
    path = node.etc / "file"
    path.write_text("before")
    node.arm(path)
    path.write_text("after")
    with ThreadPoolExecutor(2) as pool:

        def confirm() -> str:
            time.sleep(0.01 * turn)
            return str(transaction_engine.disarm(node.run, NAME))

        confirmed = pool.submit(confirm)
        pool.submit(node.engine, "restore", str(node.folder)).result()
        word = confirmed.result()
    assert (word, path.read_text()) in (("disarmed", "after"), ("fired", "before"))
    assert not node.folder.exists()


def test_a_late_guard_does_not_undo_the_next_transaction(node: Machine) -> None:
    path = node.etc / "file"
    node.arm(path)
    late = node.guards()[-1]
    token = late[-1].split()[-2]
    assert transaction_engine.disarm(node.run, NAME) == "disarmed"
    node.arm(path)
    path.write_text("after")
    assert not transaction_engine.claim_transaction(str(node.folder), "restoring", token)
    # the shell of the old guard finds the new transaction's script
    subprocess.run(late[late.index("/bin/sh") :], check=True, timeout=60)
    assert transaction_engine.state_of(str(node.folder)) == "armed"
    assert path.read_text() == "after"
    new = node.guards()[-1]
    node.later(28)
    subprocess.run(new[new.index("/bin/sh") :], check=True, timeout=60)
    assert transaction_engine.report_of(NAME)["after"] >= 30, "it has not waited for the end"
    assert not path.exists()
    assert "not confirmed in time" in transaction_engine.report_of(NAME)["why"]


@pytest.mark.parametrize("end", ["confirmed", "reverted", "reverted, then another"])
def test_a_guard_ends_with_its_change(node: Machine, end: str) -> None:
    """A confirmation or rollback also ends the guard. If it was killed before that, the guard ends by itself."""
    path = node.etc / "file"
    node.arm(path)
    guard = node.guards()[-1]
    with subprocess.Popen(guard[guard.index("/bin/sh") :]) as process:
        assert process.poll() is None
        if end == "confirmed":
            assert transaction_engine.claim_transaction(str(node.folder), "confirmed")
        else:
            node.engine("restore", str(node.folder))
        if end == "reverted, then another":
            assert transaction_engine.disarm(node.run, NAME) == "fired"
            node.arm(path)
        assert process.wait(20) == 0
    assert transaction_engine.state_of(str(node.folder)) == {
        "confirmed": "confirmed",
        "reverted": "fired",
    }.get(end, "armed")


def test_a_change_ends_its_guard_but_not_itself(
    node: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    stopped: list[list[str]] = []
    monkeypatch.setattr(
        transaction_engine,
        "run_with_deadline",
        lambda command, *_: (stopped.append(command), (0, ""))[1],
    )
    guard = transaction_engine.build_stop_guard(NAME)
    node.arm(node.etc / "file")
    node.later(30)
    transaction_engine.run_guard(str(node.folder), node.guards()[-1][-1].split()[-2])
    assert transaction_engine.state_of(str(node.folder)) == "fired"
    assert guard not in stopped
    node.calls.clear()
    transaction_engine.disarm(node.run, NAME)
    assert guard in node.calls
    node.arm(node.etc / "file")
    transaction_engine.restore_transaction(str(node.folder), "the test says so")
    assert guard in stopped


def test_an_unreadable_journal_still_has_an_owner(
    node: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After "too many open files" or a disk error, the rollback once regarded the change as over and ended."""
    node.arm(node.etc / "file")
    token = node.guards()[-1][-1].split()[-2]
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
    real, stumbled = transaction_engine.journal_of, []

    def stumbling(directory: str) -> Any:
        if len(stumbled) == 1:
            stumbled.append(directory)
            raise OSError(errno.EMFILE, "Too many open files")
        stumbled.append(directory)
        return real(directory)

    monkeypatch.setattr(transaction_engine, "journal_of", stumbling)
    monkeypatch.setattr(transaction_engine.time, "sleep", lambda _seconds: node.later(20))
    transaction_engine.run_guard(str(node.folder), token)
    assert transaction_engine.state_of(str(node.folder)) == "fired"


def test_a_guard_that_is_reverting_may_finish(
    node: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A confirmation waits for a running rollback, and does not stop it when the wait takes too long."""
    node.arm(node.etc / "file")
    assert transaction_engine.claim_transaction(str(node.folder), "restoring")
    monkeypatch.setattr(transaction_engine, "RESTORE_SECONDS", 0)
    node.calls.clear()
    assert transaction_engine.disarm(node.run, NAME) == "fired"
    assert node.calls == []
    assert transaction_engine.state_of(str(node.folder)) == "restoring"


def test_a_guard_without_its_script_ends_well(node: Machine) -> None:
    node.arm()
    guard = node.calls[-1]
    transaction_engine.disarm(node.run, NAME)
    subprocess.run(guard[guard.index("/bin/sh") :], check=True, timeout=60)


def test_systemd_can_reload_the_guard_unit(node: Machine) -> None:
    """Found by tests/cuts/test_drawn_cuts.py: after a daemon-reload it started, and its script did nothing.

    systemd 252 writes a backslash before these characters in a unit, and does not remove it when it
    reads the unit.
    """
    node.arm(node.etc / "file")
    assert not set("$`\\") & set("".join(node.guards()[0]))


def test_claims_exclude_each_other(node: Machine) -> None:
    for _ in range(30):
        node.arm()
        with ThreadPoolExecutor(4) as pool:
            words = ["confirmed", "restoring"] * 2
            won = list(
                pool.map(
                    lambda word: transaction_engine.claim_transaction(str(node.folder), word), words
                )
            )
        assert won.count(True) == 1
        (node.folder / "fired").touch()
        transaction_engine.disarm(node.run, NAME)
