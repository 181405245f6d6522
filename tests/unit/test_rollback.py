"""Transactions: what is saved, who ends them, what comes back. The engine runs as the program that it is on a node.

One file, though long: its sections share the node that they break.
"""

from __future__ import annotations

import errno
import json
import os
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from ansible.module_utils.fullmesh.transaction import engine as transaction_engine
from hypothesis import given
from hypothesis import strategies as st
from rehearsal import rehearsed

NAME = "static_ip"


class Machine:
    """A root of files and a systemd that remembers what it was asked to start."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.etc = root / "etc"
        self.etc.mkdir()
        self.store = root / "store"
        self.units = root / "units"
        self.calls: list[list[str]] = []
        self.rc = 0
        self.mute = False

    def run(self, argv: list[str]) -> tuple[int, str]:
        self.calls.append(argv)
        if argv[-1].endswith(" rehearse") and not self.mute:
            # the real chain: sh, the script, the engine as a program
            chain = argv[argv.index("/bin/sh") :]
            return subprocess.run(chain, check=False, timeout=60).returncode, ""
        return (self.rc, "no") if argv[0] == "systemd-run" else (0, "")

    def arm(self, *paths: Path, commands: list[Any] | None = None, **more: Any) -> None:
        transaction_engine.arm(
            self.run, NAME, 30, [str(path) for path in paths], commands or [], **more
        )

    def guards(self) -> list[list[str]]:
        """How systemd was asked for guards, in order."""
        return [call for call in self.calls if call[-1].endswith(" guard")]

    def later(self, seconds: int) -> None:
        """Let that much time go by for the change that waits."""
        journal = json.loads((self.folder / "journal.json").read_text())
        journal["monotonic"] -= seconds
        (self.folder / "journal.json").write_text(json.dumps(journal))

    def engine(self, *words: str) -> None:
        """What systemd would have started."""
        command = [sys.executable, str(self.store / "engine.py"), *words]
        subprocess.run(command, check=True, timeout=60)

    @property
    def folder(self) -> Path:
        return self.store / NAME

    def log(self) -> str:
        return (self.store / "log").read_text()


@pytest.fixture
def node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    machine = Machine(tmp_path)
    monkeypatch.setattr(transaction_engine, "STORE", str(machine.store))
    monkeypatch.setattr(transaction_engine, "UNITS", str(machine.units))
    return machine


def manifest(top: Path) -> list[tuple[Any, ...]]:
    """Everything below a directory: kind, mode, owner, bytes, times of files, extended attributes."""
    found = []
    for path in sorted(top.rglob("*")):
        info = path.lstat()
        data = os.readlink(path) if path.is_symlink() else path.is_file() and path.read_bytes()
        names = os.listxattr(path, follow_symlinks=False)
        values = [os.getxattr(path, name, follow_symlinks=False) for name in names]
        when = 0 if path.is_dir() else info.st_mtime_ns
        found.append((str(path), info.st_mode, info.st_uid, info.st_gid, data, when, names, values))
    return found


def furnish(node: Machine) -> list[Path]:
    """Files of every kind, and some that are not there."""
    plain, private, link = node.etc / "plain", node.etc / "pri'vate", node.etc / "link"
    plain.write_text("one\n")
    private.write_bytes(b"\x00two")
    private.chmod(0o4750)
    os.utime(private, ns=(1, 1234567890123456789))
    if os.geteuid() == 0:
        os.chown(private, 12, 34)
    link.symlink_to("plain")
    return [plain, private, link, node.etc / "new", node.etc / "a/b/new"]


def spoil(paths: list[Path]) -> None:
    """Change everything that can be changed."""
    plain, private, link, new, deep = paths
    plain.write_text("changed")
    plain.chmod(0o600)
    private.unlink()
    link.unlink()
    link.write_text("no link any more")
    new.write_text("x")
    deep.parent.mkdir(parents=True)
    deep.write_text("y")


def test_restored_is_byte_for_byte_with_modes_owners_times_links_and_absence(node: Machine) -> None:
    paths = furnish(node)
    before = manifest(node.etc)
    node.arm(*paths, commands=[["touch", str(node.root / "ran")], f"echo $0 > {node.root}/shell"])
    spoil(paths)
    node.engine("restore", str(node.folder))
    assert manifest(node.etc) == before
    assert (node.root / "ran").exists()
    assert (node.root / "shell").exists()
    report = transaction_engine.report_of(NAME)
    assert sorted(report["files"]) == sorted(map(str, paths))
    assert report["faults"] == []
    assert transaction_engine.disarm(node.run, NAME) == "fired"
    assert transaction_engine.disarm(node.run, NAME) == "idle"


def test_extended_attributes_come_back(node: Machine) -> None:
    """SELinux's labels are such; ext4, xfs, overlay, and tmpfs since Linux 6.6, take ours as well."""
    path = node.etc / "labelled"
    path.write_text("one")
    os.setxattr(path, "user.fullmesh", b"label")
    before = manifest(node.etc)
    node.arm(path)
    path.unlink()
    node.engine("restore", str(node.folder))
    assert manifest(node.etc) == before


def test_a_confirmed_change_stays_and_nothing_is_left_but_the_log(node: Machine) -> None:
    paths = furnish(node)
    node.arm(*paths)
    assert (node.units / transaction_engine.BOOT).exists()
    spoil(paths)
    after = manifest(node.etc)
    assert transaction_engine.disarm(node.run, NAME) == "disarmed"
    assert manifest(node.etc) == after
    assert sorted(path.name for path in node.store.iterdir()) == ["engine.py", "lock", "log"]
    assert not node.units.exists()
    assert [line.split(": ")[1] for line in node.log().splitlines()] == [
        "armed for 30 s",
        "confirmed",
    ]


def test_the_boot_unit_is_there_while_armed_and_gone_after(node: Machine) -> None:
    node.units.mkdir()
    before = manifest(node.units)
    node.arm()
    unit = (node.units / transaction_engine.BOOT).read_text()
    assert (
        f"ExecStart={transaction_engine.find_system_python()} {node.store}/engine.py boot {node.store}"
        in unit
    )
    for line in ("Before=network-pre.target", "firewalld.service", "systemd-networkd.service"):
        assert line in unit
    assert (
        node.units / transaction_engine.WANTS / transaction_engine.BOOT
    ).resolve() == node.units / transaction_engine.BOOT
    node.engine("restore", str(node.folder))
    assert manifest(node.units) == before


def test_only_root_can_read_what_was_saved(node: Machine) -> None:
    node.arm(*furnish(node))
    assert node.store.stat().st_mode & 0o077 == 0
    assert node.folder.stat().st_mode & 0o077 == 0


# --- two at once ------------------------------------------------------------------------------------


def test_a_second_change_is_refused_and_says_since_when_and_which(node: Machine) -> None:
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


def test_two_that_arm_at_the_same_moment(node: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transaction_engine, "LOCK_SECONDS", 0)
    node.store.mkdir()
    with transaction_engine.hold_lock(str(node.store / "lock"), 0):  # noqa: SIM117 (what raises stands alone)
        with pytest.raises(transaction_engine.RollbackError, match=r"\[TX-101\]"):
            node.arm()


def test_a_transaction_whose_guard_never_ran_is_undone_by_the_next_run(node: Machine) -> None:
    path = node.etc / "file"
    path.write_text("before")
    node.arm(path)
    path.write_text("after")
    node.later(1000)
    node.arm(path)
    assert path.read_text() == "before"
    assert transaction_engine.state_of(str(node.folder)) == "armed"


@pytest.mark.parametrize("turn", range(12))
def test_the_time_is_over_while_confirm_arrives(node: Machine, turn: int) -> None:
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
    # the shell that the old guard is finds the new transaction's script
    subprocess.run(late[late.index("/bin/sh") :], check=True, timeout=60)
    assert transaction_engine.state_of(str(node.folder)) == "armed"
    assert path.read_text() == "after"
    new = node.guards()[-1]
    node.later(28)
    subprocess.run(new[new.index("/bin/sh") :], check=True, timeout=60)
    assert transaction_engine.report_of(NAME)["after"] >= 30, "it has not waited for the end"
    assert not path.exists()
    assert "not confirmed in time" in transaction_engine.report_of(NAME)["why"]


@pytest.mark.parametrize("end", ["confirmed", "put back", "put back, and another"])
def test_a_guard_goes_when_its_change_is_over(node: Machine, end: str) -> None:
    """Whoever ends the change also ends the guard; where that was killed in between, it goes by itself."""
    path = node.etc / "file"
    node.arm(path)
    guard = node.guards()[-1]
    with subprocess.Popen(guard[guard.index("/bin/sh") :]) as process:
        assert process.poll() is None
        if end == "confirmed":
            assert transaction_engine.claim_transaction(str(node.folder), "confirmed")
        else:
            node.engine("restore", str(node.folder))
        if end == "put back, and another":
            assert transaction_engine.disarm(node.run, NAME) == "fired"
            node.arm(path)
        assert process.wait(20) == 0
    assert transaction_engine.state_of(str(node.folder)) == {
        "confirmed": "confirmed",
        "put back": "fired",
    }.get(end, "armed")


def test_who_ends_a_change_ends_the_guard_but_not_under_its_own_feet(
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


def test_a_journal_that_cannot_be_read_is_not_nobodys(
    node: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A full table of files, a disk that stumbles: the rollback took that for a change that was over, and went."""
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


def test_a_guard_that_is_at_it_is_left_to_finish(
    node: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Somebody who confirms while it puts back waits for it, and does not end it when that takes too long."""
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


def test_systemd_can_read_again_what_a_guard_is(node: Machine) -> None:
    """Found by tests/cuts/test_drawn_cuts.py: after a daemon-reload it was started, and its script did nothing.

    systemd 252 puts a backslash before these when it writes a unit of ours, and leaves it there when it reads.
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


# --- what can go wrong ------------------------------------------------------------------------------


def test_no_room_to_save_changes_nothing_and_arms_nothing(
    node: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    paths = furnish(node)
    before = manifest(node.etc)
    real = transaction_engine.write_file
    for number in range(7):
        written: list[str] = []

        def full(path: str, data: bytes, mode: int, at: int = number, seen: Any = written) -> None:
            seen.append(path)
            if len(seen) > at:
                raise OSError(28, "No space left on device")
            real(path, data, mode)

        monkeypatch.setattr(transaction_engine, "write_file", full)
        with pytest.raises(transaction_engine.RollbackError, match=r"\[TX-102\].*No space left"):
            node.arm(*paths)
        assert sorted(path.name for path in node.store.iterdir() if path.is_dir()) == []
        assert not node.units.exists()
    assert node.calls == []
    assert manifest(node.etc) == before


@pytest.mark.parametrize("room", [0, 1])
def test_no_room_for_the_plan_changes_nothing_and_leaves_nothing_armed(
    node: Machine, monkeypatch: pytest.MonkeyPatch, room: int
) -> None:
    paths = furnish(node)
    before = manifest(node.etc)
    node.arm(*paths)
    real, written = transaction_engine.write_file, []

    def full(path: str, data: bytes, mode: int) -> None:
        written.append(path)
        if len(written) > room:
            raise OSError(28, "No space left on device")
        real(path, data, mode)

    monkeypatch.setattr(transaction_engine, "write_file", full)
    with pytest.raises(transaction_engine.RollbackError, match=r"\[TX-102\].*No space left"):
        transaction_engine.apply_change(node.run, NAME, {}, [])
    assert not node.folder.exists()
    assert not node.units.exists()
    assert not [call for call in node.calls if call[0] == "systemd-run" and "apply" in call]
    assert manifest(node.etc) == before


def test_a_guard_that_does_not_start_leaves_nothing(node: Machine) -> None:
    node.rc = 1
    with pytest.raises(transaction_engine.RollbackError, match=r"\[TX-103\]"):
        node.arm(*furnish(node))
    assert not node.folder.exists()
    assert not node.units.exists()


def test_a_rollback_that_does_not_run_is_found_before_anything_is_changed(node: Machine) -> None:
    """What a policy does that forbids it: systemd starts it, and nothing comes of it."""
    file = node.etc / "hosts"
    file.write_text("before")
    node.mute = True
    with pytest.raises(
        transaction_engine.RollbackError, match=r"\[TX-108\] the rollback does not run.*changed"
    ):
        node.arm(file)
    assert not node.folder.exists()
    assert not node.guards()
    assert not list(node.units.rglob("*"))


def test_a_rollback_that_would_fail_is_found_before_anything_is_changed(
    node: Machine, monkeypatch: pytest.MonkeyPatch
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
    node.mute = True  # the engine's side here, where its calls can be made to fail
    opened = os.open

    def readonly(path: Any, flags: int, *more: Any, **named: Any) -> int:
        if flags & os.O_TMPFILE == os.O_TMPFILE:
            raise OSError(errno.EROFS, "Read-only file system")
        return opened(path, flags, *more, **named)

    def run(argv: list[str]) -> tuple[int, str]:
        return (0, "") if rehearsed(argv) else node.run(argv)

    monkeypatch.setattr(transaction_engine.os, "open", readonly)
    with pytest.raises(
        transaction_engine.RollbackError, match=r"\[TX-108\].*hosts: Read-only file system"
    ):
        transaction_engine.arm(run, NAME, 30, [str(file)], [])
    assert not node.folder.exists()
    assert file.read_text() == "before"


def test_only_the_run_that_armed_it_confirms_or_restores(node: Machine) -> None:
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


def test_a_confirmation_that_cannot_be_written_leaves_the_guard_to_end_the_change(
    node: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was taken for one that came too late: the guard was ended, and the change stayed for good."""
    node.arm(node.etc / "new")
    monkeypatch.setattr(
        transaction_engine, "claim_transaction", lambda directory, state, token="": False
    )
    node.calls.clear()
    with pytest.raises(transaction_engine.RollbackError, match=r"\[TX-110\].*reverts the change"):
        transaction_engine.disarm(node.run, NAME)
    assert node.calls == []
    assert transaction_engine.state_of(str(node.folder)) == "armed"


def test_a_rollback_that_cannot_begin_is_tried_again(
    node: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody takes that for a confirmation; its program fails, so that systemd starts it once more."""
    node.arm(node.etc / "new")
    assert set(transaction_engine.AGAIN) <= set(node.guards()[0])
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


def test_the_system_s_own_python_runs_it(node: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    file = node.etc / "hosts"
    file.write_text("before")
    monkeypatch.setattr(transaction_engine.sys, "executable", "/home/somebody/venv/bin/python3")
    node.arm(file)
    assert "/home" not in (node.folder / "back.sh").read_text()
    assert "/home" not in (node.units / transaction_engine.BOOT).read_text()


def test_a_unit_that_is_still_on_its_way_out_is_waited_for(node: Machine) -> None:
    answers = [(1, "Unit x.service was already loaded or has a fragment file."), (0, "")]

    def run(argv: list[str]) -> tuple[int, str]:
        guard = argv[0] == "systemd-run" and not rehearsed(argv)
        return answers.pop(0) if guard else (0, "")

    transaction_engine.arm(run, NAME, 30, [], [])
    assert answers == []
    assert transaction_engine.state_of(str(node.folder)) == "armed"


def test_a_change_that_does_not_start_is_put_away(node: Machine) -> None:
    node.arm()
    node.rc = 1
    with pytest.raises(transaction_engine.RollbackError, match=r"\[TX-103\]"):
        transaction_engine.apply_change(node.run, NAME, {}, [])
    assert not node.folder.exists()


def test_a_directory_in_the_place_of_a_file(node: Machine) -> None:
    (node.etc / "dir").mkdir()
    with pytest.raises(transaction_engine.RollbackError, match=r"\[TX-106\]"):
        node.arm(node.etc / "dir")
    assert not node.folder.exists()
    assert not node.units.exists()


def test_a_disk_that_is_full_when_it_counts(node: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    path = node.etc / "file"
    path.write_text("before")
    node.arm(path)
    path.write_text("a longer text than before")

    def full(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(transaction_engine, "write_file", full)
    assert transaction_engine.restore_transaction(str(node.folder), "test")
    assert path.read_text() == "before"
    assert transaction_engine.state_of(str(node.folder)) == "fired"
    assert transaction_engine.disarm(node.run, NAME) == "fired"


def test_a_file_system_without_room_for_one_more_name(
    node: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = node.etc / "file"
    path.write_text("before")
    node.arm(path)
    path.write_text("after")
    real = os.open

    def refused(name: Any, flags: int, *more: Any, **named: Any) -> int:
        if flags & os.O_CREAT and not os.path.exists(name):
            raise OSError(28, "No space left on device")
        return real(name, flags, *more, **named)

    monkeypatch.setattr(os, "open", refused)
    assert transaction_engine.restore_transaction(str(node.folder), "test")
    assert path.read_text() == "before"
    assert transaction_engine.state_of(str(node.folder)) == "fired"
    assert transaction_engine.disarm(node.run, NAME) == "fired"
    assert not node.folder.exists()


def test_whoever_comes_too_late_leaves_the_saved_copy_to_an_unfinished_restore(
    node: Machine, monkeypatch: pytest.MonkeyPatch
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


def test_what_a_killed_run_left_is_never_restored(node: Machine) -> None:
    path = node.etc / "file"
    path.write_text("before")
    node.arm(path)
    (node.folder).rename(node.store / ".new-killed")  # before the rename that arms it
    path.write_text("confirmed since")
    node.engine("boot", str(node.store))
    assert path.read_text() == "confirmed since"
    node.arm(path)
    assert not (node.store / ".new-killed").exists()
    assert transaction_engine.state_of(str(node.folder)) == "armed"


def test_every_name_that_comes_or_goes_is_on_the_disk_before_the_word_is_out(
    node: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    link, new = node.etc / "d/link", node.etc / "e/new"
    link.parent.mkdir()
    new.parent.mkdir()
    link.symlink_to("plain")
    node.arm(link, new)
    link.unlink()
    new.write_text("x")
    synced: list[str] = []
    real = transaction_engine.flush_directory

    def sync(path: str) -> None:
        synced.append(path)
        assert path == str(node.folder) or not (node.folder / "fired").exists()
        real(path)

    monkeypatch.setattr(transaction_engine, "flush_directory", sync)
    assert transaction_engine.restore_transaction(str(node.folder), "test")
    assert {str(link.parent), str(new.parent), str(node.units)} <= set(synced)


def test_a_command_is_not_waited_for_longer_because_of_what_it_started(tmp_path: Path) -> None:
    started = tmp_path / "pid"
    assert (
        transaction_engine.run_with_deadline(f"sleep 30 & echo $! > {started}; sleep 30", 1)[0]
        == 124
    )
    pid = int(started.read_text())
    assert Path(f"/proc/{pid}/cmdline").read_bytes()  # it still runs, with our pipe in its hands
    os.kill(pid, signal.SIGTERM)


def test_of_a_script_its_arguments_are_told() -> None:
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


def test_a_command_that_fails_stops_no_other(node: Machine) -> None:
    node.arm(commands=[["false"], "no-such-program", ["touch", str(node.root / "ran")]])
    node.engine("restore", str(node.folder))
    report = transaction_engine.report_of(NAME)
    assert [fault.split("`")[1] for fault in report["faults"]] == ["false", "no-such-program"]
    assert (node.root / "ran").exists()


def test_a_restore_that_was_cut_off_is_finished(node: Machine) -> None:
    path = node.etc / "file"
    path.write_text("before")
    node.arm(path)
    path.write_text("after")
    assert transaction_engine.claim_transaction(str(node.folder), "restoring")
    node.engine("boot", str(node.store))
    assert path.read_text() == "before"


# --- after a reboot ---------------------------------------------------------------------------------


def rebooted(node: Machine) -> None:
    journal = json.loads((node.folder / "journal.json").read_text())
    journal["boot"] = "another boot"
    (node.folder / "journal.json").write_text(json.dumps(journal))


def test_after_a_reboot_the_files_are_back_and_the_boot_commands_have_run(node: Machine) -> None:
    path, ran = node.etc / "file", node.root / "ran"
    path.write_text("before")
    node.arm(
        path, commands=[["touch", f"{ran}-not"]], boot=[["touch", str(ran)]], links=["no-such"]
    )
    path.write_text("after")
    rebooted(node)
    node.engine("boot", str(node.store))
    assert path.read_text() == "before"
    assert (ran.exists(), Path(f"{ran}-not").exists()) == (True, False)
    assert "restarted" in transaction_engine.report_of(NAME)["why"]
    assert not node.units.exists()


def test_without_boot_commands_the_usual_ones_run_once_the_boot_is_over(
    node: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, ran = node.etc / "file", node.root / "ran"
    path.write_text("before")
    node.arm(path, commands=[["touch", str(ran)]])
    path.write_text("after")
    rebooted(node)
    asked: list[Any] = []
    monkeypatch.setattr(
        transaction_engine,
        "run_with_deadline",
        lambda command, *_: asked.append(command) or (0, ""),
    )
    transaction_engine.restore_at_boot(str(node.store))
    monkeypatch.undo()
    assert path.read_text() == "before"
    assert not ran.exists()
    assert "--property=After=multi-user.target" in asked[-1]
    # a power cut here: the next boot does it again
    assert (node.units / transaction_engine.BOOT).exists()
    node.engine(*asked[-1][-2:])
    assert ran.exists()
    assert not node.units.exists()
    assert transaction_engine.state_of(str(node.folder)) == "fired"


def test_a_confirmation_that_was_cut_off_counts(node: Machine) -> None:
    path = node.etc / "file"
    node.arm(path)
    path.write_text("after")
    assert transaction_engine.claim_transaction(str(node.folder), "confirmed")
    node.engine("boot", str(node.store))
    assert path.read_text() == "after"
    assert not node.folder.exists()
    assert not node.units.exists()


# --- apply ------------------------------------------------------------------------------------------


def planned(node: Machine) -> list[str]:
    """The engine's words that systemd was asked to run."""
    return node.calls[-1][node.calls[-1].index(f"{node.store}/engine.py") + 1 :]


def test_apply_writes_runs_and_says_so(node: Machine) -> None:
    old, new = node.etc / "old", node.etc / "sub/new"
    old.write_text("x")
    node.arm(old, new)
    files = {str(old): None, str(new): {"text": "hello\n", "mode": 0o600}}
    transaction_engine.apply_change(node.run, NAME, files, [["touch", str(node.root / "ran")]])
    assert transaction_engine.read_apply_progress(NAME)["state"] == "waiting"
    node.engine(*planned(node))
    assert transaction_engine.wait_for_apply(NAME, 1)["state"] == "done"
    assert not old.exists()
    assert new.read_text() == "hello\n"
    assert new.stat().st_mode & 0o777 == 0o600
    assert (node.root / "ran").exists()


def test_what_cannot_be_applied_is_undone_at_once(node: Machine) -> None:
    new = node.etc / "new"
    node.arm(new)
    transaction_engine.apply_change(
        node.run, NAME, {str(new): {"text": "x", "mode": 0o644}}, [["ls", "/no/such"]]
    )
    node.engine(*planned(node))
    assert not new.exists()
    assert transaction_engine.read_apply_progress(NAME)["state"] == "failed"
    assert "no/such" in transaction_engine.read_apply_progress(NAME)["words"]
    assert "it could not be applied: `ls /no/such`" in transaction_engine.report_of(NAME)["why"]


def test_apply_does_not_stop_the_unit_that_it_runs_in(
    node: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[Any] = []
    monkeypatch.setattr(
        transaction_engine,
        "run_with_deadline",
        lambda command, *_: asked.append(command) or (int(command == ["no"]), ""),
    )
    node.arm()
    transaction_engine.apply_change(node.run, NAME, {}, [["no"]])
    transaction_engine.do_apply(str(node.folder))
    assert transaction_engine.state_of(str(node.folder)) == "fired"
    assert not [command for command in asked if "fullmesh-apply-static-ip.service" in command]


def test_an_engine_that_stumbles_says_so_and_leaves_no_failed_unit(node: Machine) -> None:
    node.arm()
    (node.folder / "plan.json").write_text("{}")
    node.engine("apply", str(node.folder))
    tail = [line for line in (node.store).rglob("log") if "KeyError" in line.read_text()]
    assert tail


def test_what_the_kernel_does_not_take_again_of_others_is_named(
    node: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An address comes back; a route by a gateway of the old network is refused, as iproute2 6.1 says it."""
    addresses: list[str] = []
    shown = {"ifname": "eth1", "mtu": 1500, "flags": ["UP"]}

    def call(command: list[str], *_: Any, **__: Any) -> tuple[int, str]:
        words = " ".join(command)
        if words == "ip -j addr show":
            infos = [{"local": one, "prefixlen": 32, "scope": "global"} for one in addresses]
            return 0, json.dumps([{**shown, "addr_info": infos}])
        if words.startswith("ip addr add 10.0.0.200/32 "):
            addresses.append("10.0.0.200")
        if " route replace " in words:
            return 2, "Error: Nexthop has invalid gateway."
        return 0, ""

    monkeypatch.setattr(transaction_engine, "run_with_deadline", call)
    monkeypatch.setattr(transaction_engine, "SETTLE_SECONDS", 1.5)
    link: transaction_engine.ViewLink = {
        "mtu": 0,
        "up": True,
        "addresses": ["10.0.0.200/32"],
        "leases": [],
        "manner": {},
    }
    others: transaction_engine.KernelGoal = {
        "links": {"eth1": link},
        "routes": [["-4", "eth1", "192.0.2.0/24 via 10.0.0.8 proto bird"]],
        "connected": [],
        "ours": {"addresses": {}, "routes": []},
    }
    node.arm()
    transaction_engine.apply_change(node.run, NAME, {}, [], others=others)
    transaction_engine.do_apply(str(node.folder))
    gone = "ip -4 route replace 192.0.2.0/24 via 10.0.0.8 proto bird dev eth1"
    assert transaction_engine.read_apply_progress(NAME)["lost"] == [gone]
    last = node.log().splitlines()[-1]
    assert "restored for other owners: ip addr add 10.0.0.200/32 dev eth1; lost, " in last
    assert last.endswith("; lost, of others: " + gone)


def test_a_run_that_was_killed_before_its_change_was_armed_leaves_no_boot_unit(
    node: Machine,
) -> None:
    """Found by tests/unit/test_schedules.py: whoever confirmed it took the record away, and the unit stayed."""
    node.arm()
    (node.folder / "armed").unlink()
    assert transaction_engine.disarm(node.run, NAME) == "fired"
    assert not node.folder.exists()
    assert not node.units.exists()


def test_a_folder_that_is_no_transaction_stays_where_it_is(node: Machine) -> None:
    """lost+found, where the store is a file system of its own; a word in it does not make it one."""
    for name in ("lost+found", "other"):
        (node.store / name).mkdir(parents=True)
        (node.store / name / "kept").touch()
    (node.store / "other" / "confirmed").touch()
    node.arm()
    transaction_engine.restore_at_boot(str(node.store))
    assert (node.store / "lost+found/kept").exists()
    assert (node.store / "other/kept").exists()
    assert transaction_engine.state_of(str(node.folder)) == "fired"


def test_apply_waits_until_our_connection_has_ended(node: Machine) -> None:
    new = node.etc / "new"
    node.arm(new)
    session = subprocess.Popen(["sleep", "1"])
    with ThreadPoolExecutor(1) as pool:
        transaction_engine.apply_change(
            node.run, NAME, {str(new): {"text": "x", "mode": 0o644}}, [], leave=os.getpid()
        )
        plan = json.loads((node.folder / "plan.json").read_text())
        (node.folder / "plan.json").write_text(json.dumps(plan | {"leave": session.pid}))
        done = pool.submit(node.engine, *planned(node))
        assert not new.exists()
        session.wait()
        done.result()
    assert new.exists()


def test_nothing_more_is_applied_once_it_is_put_back(node: Machine) -> None:
    new = node.etc / "new"
    node.arm(new)
    transaction_engine.apply_change(node.run, NAME, {str(new): {"text": "x", "mode": 0o644}}, [])
    words = planned(node)
    node.engine("restore", str(node.folder))
    node.engine(*words)
    assert not new.exists()


# --- the kernel's view ------------------------------------------------------------------------------


def view(addresses: list[str], routes: list[list[str]], mtu: int = 1500) -> dict[str, Any]:
    leases = [one for one in addresses if one.startswith("10.")]
    link = {"mtu": mtu, "up": True, "addresses": addresses, "leases": leases}
    return {"links": {"e0": link}, "routes": routes}


def test_what_the_kernel_no_longer_shows_is_named_as_commands(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    default = ["-4", "e0", "default via 10.0.0.1 proto dhcp metric 100"]
    before = view(["10.0.0.5/24"], [default])
    now = view(["10.0.0.9/24"], [["-4", "e0", "default via 10.0.0.2"]], 576)
    monkeypatch.setattr(transaction_engine, "read_kernel_view", lambda names: now)
    assert transaction_engine.build_kernel_commands(before) == [
        ["ip", "link", "set", "e0", "mtu", "1500"],
        ["ip", "addr", "add", "10.0.0.5/24", "dev", "e0"],
        ["ip", "addr", "del", "10.0.0.9/24", "dev", "e0"],
        ["ip", "-4", "route", "del", "default", "via", "10.0.0.2", "dev", "e0"],
        ["ip", "-4", "route", "replace", *default[2].split(), "dev", "e0"],
    ]
    monkeypatch.setattr(transaction_engine, "read_kernel_view", lambda names: before)
    assert transaction_engine.build_kernel_commands(before) == []


# What others gave e0 while a change waited: keepalived's address, and one after a router's advertisement.
LATER = ["192.0.2.200/32", "2001:db8::5/64"]
GAVE: transaction_engine.OwnChanges = {
    "addresses": {"e0": ["192.0.2.9/24"]},
    "routes": [],
    "links": ["e0"],
}


def later_view(addresses: list[str], routes: list[list[str]]) -> dict[str, Any]:
    return view(addresses + LATER, routes)


@pytest.mark.parametrize(
    ("lease_before", "ours", "gone"),
    [
        (False, GAVE, ["addr 10.0.0.7/24", "addr 192.0.2.9/24", "route default"]),
        # its owner may have got another lease since the rollback began
        (True, GAVE, ["addr 192.0.2.9/24", "route default"]),
        # an interface that is only watched, because ssh or a default route uses it
        (False, {**GAVE, "addresses": {}, "links": []}, []),
    ],
)
def test_a_rollback_deletes_only_what_the_change_gave(
    lease_before: bool,
    ours: transaction_engine.OwnChanges,
    gone: list[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    before = view(["10.0.0.5/24"] if lease_before else ["192.0.2.5/24"], []) | {"ours": ours}
    now = later_view(["192.0.2.9/24", "10.0.0.7/24"], [["-4", "e0", "default via 192.0.2.1"]])
    monkeypatch.setattr(transaction_engine, "read_kernel_view", lambda names: now)
    steps = [step for step in transaction_engine.build_kernel_commands(before) if "del" in step]
    told = [f"addr {step[3]}" if step[1] == "addr" else f"route {step[4]}" for step in steps]
    assert told == gone


def test_a_rollback_gives_an_address_of_others_back_that_an_owner_drops(
    node: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """keepalived does not add its address again, and `networkctl reconfigure` drops it."""
    before = view(["192.0.2.5/24"], []) | {"ours": GAVE}
    manner = {"2001:db8::5/64": ["valid_lft", "600", "preferred_lft", "600"]}
    now = later_view(["192.0.2.9/24"], [])
    now["links"]["e0"]["manner"] = manner
    monkeypatch.setattr(transaction_engine, "read_kernel_view", lambda names: now)
    node.folder.mkdir(parents=True)
    kept = transaction_engine.keep_later_addresses(str(node.folder), before)["links"]["e0"]
    assert kept["addresses"] == ["192.0.2.200/32", "192.0.2.5/24", "2001:db8::5/64"]
    assert kept["manner"] == manner
    # killed after its owner's commands, and started again
    monkeypatch.setattr(transaction_engine, "read_kernel_view", lambda names: view([], []))
    assert transaction_engine.keep_later_addresses(str(node.folder), before)["links"]["e0"] == kept


def test_owners_get_the_time_that_a_lease_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    before = view(
        ["10.0.0.5/24", "192.0.2.5/24"], [["-4", "e0", "default via 10.0.0.1 proto dhcp"]]
    )
    monkeypatch.setattr(
        transaction_engine, "read_kernel_view", lambda names: view(["192.0.2.9/24"], [])
    )
    seconds = {
        " ".join(step): transaction_engine.get_owner_patience(step, before)
        for step in transaction_engine.build_kernel_commands(before)
    }
    assert seconds == {
        "ip addr add 10.0.0.5/24 dev e0": transaction_engine.LEASE_SECONDS,
        "ip addr add 192.0.2.5/24 dev e0": transaction_engine.SETTLE_SECONDS,
        "ip addr del 192.0.2.9/24 dev e0": 0,
        "ip -4 route replace default via 10.0.0.1 proto dhcp dev e0": transaction_engine.LEASE_SECONDS,
    }


def test_what_the_owner_does_not_put_back_the_kernel_is_told(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    before, now, told = view(["192.0.2.5/24"], []), view([], []), []
    monkeypatch.setattr(transaction_engine, "SETTLE_SECONDS", 0.1)
    monkeypatch.setattr(transaction_engine, "read_kernel_view", lambda names: now)

    def call(command: list[str]) -> None:
        told.append(" ".join(command))
        now.update(before)

    monkeypatch.setattr(transaction_engine, "run_with_deadline", call)
    assert transaction_engine.settle_kernel(before) == told == ["ip addr add 192.0.2.5/24 dev e0"]


@pytest.mark.parametrize(("waited", "until"), [(0, 12), (5, 7), (20, 0)])
def test_an_owner_that_has_waited_for_a_lease_is_waited_for_that_much_less(
    monkeypatch: pytest.MonkeyPatch, waited: int, until: int
) -> None:
    before, now, told = view(["10.0.0.5/24"], []), view([], []), []
    clock = [1000.0]

    def sleep(seconds: float) -> None:
        clock[0] += seconds

    def call(command: list[str]) -> None:
        told.append((" ".join(command), round(clock[0] - 1000)))
        now.update(before)

    monkeypatch.setattr(
        transaction_engine, "time", SimpleNamespace(monotonic=lambda: clock[0], sleep=sleep)
    )
    monkeypatch.setattr(transaction_engine, "read_kernel_view", lambda names: now)
    monkeypatch.setattr(transaction_engine, "run_with_deadline", call)
    transaction_engine.settle_kernel(before, clock[0] - waited)
    assert told == [("ip addr add 10.0.0.5/24 dev e0", until)]


LEASED = """[{"ifname": "e0", "flags": ["UP"], "mtu": 1500, "addr_info": [
  {"family": "inet", "local": "10.0.0.5", "prefixlen": 24, "metric": 100, "broadcast": "10.0.0.255", "scope": "global",
   "dynamic": true, "label": "e0", "valid_life_time": 3487, "preferred_life_time": 3487},
  {"family": "inet", "local": "10.0.1.5", "prefixlen": 24, "metric": 7, "scope": "global",
   "valid_life_time": 4294967295, "preferred_life_time": 4294967295},
  {"family": "inet6", "local": "fd00::5", "prefixlen": 64, "scope": "global", "noprefixroute": true,
   "valid_life_time": 4294967295, "preferred_life_time": 4294967295},
  {"family": "inet6", "local": "fe80::5", "prefixlen": 64, "scope": "link",
   "valid_life_time": 4294967295, "preferred_life_time": 4294967295}]}]"""


def test_an_address_comes_back_with_its_metric_and_a_lease_with_the_time_that_it_had(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What `ip -j addr` of iproute2 6.1 says of a lease of systemd-networkd 252, and of an address of its own."""
    monkeypatch.setattr(
        transaction_engine,
        "read_command_output",
        lambda command: LEASED if "addr" in command else "",
    )
    before = transaction_engine.read_kernel_view(["e0"])
    bare = LEASED.split('"addr_info"', maxsplit=1)[0] + '"addr_info": []}]'
    monkeypatch.setattr(
        transaction_engine, "read_command_output", lambda command: bare if "addr" in command else ""
    )
    assert [" ".join(step) for step in transaction_engine.build_kernel_commands(before)] == [
        "ip addr add 10.0.0.5/24 broadcast 10.0.0.255 noprefixroute valid_lft 3487 preferred_lft 3487 dev e0",
        "ip addr add 10.0.1.5/24 metric 7 dev e0",
        "ip addr add fd00::5/64 noprefixroute dev e0",
    ]


MANAGED = """[{"ifname": "e0", "flags": ["UP"], "mtu": 1500, "addr_info": [
  {"family": "inet", "local": "10.0.0.5", "prefixlen": 24, "broadcast": "10.0.0.255", "scope": "global",
   "dynamic": true, "noprefixroute": true, "label": "e0", "valid_life_time": 3600, "preferred_life_time": 3600}]}]"""
MANAGED_ROUTES = """default via 10.0.0.1 dev e0 proto dhcp src 10.0.0.5 metric 100
10.0.0.0/24 dev e0 proto kernel scope link src 10.0.0.5 metric 100
local 10.0.0.5 dev e0 table local proto kernel scope host src 10.0.0.5"""


def test_the_route_to_its_own_network_comes_back_where_its_owner_had_made_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """NetworkManager 1.42; without that route the kernel refuses the gateway."""

    def ask(command: list[str]) -> str:
        if "addr" in command:
            return MANAGED
        if "route" not in command:
            return ""
        return MANAGED_ROUTES if "-4" in command else "fe80::/64 dev e0 proto kernel metric 1024"

    monkeypatch.setattr(transaction_engine, "read_command_output", ask)
    before = transaction_engine.read_kernel_view(["e0"])
    assert transaction_engine.build_kernel_commands(before) == []
    now = transaction_engine.read_kernel_view(["e0"])
    now["links"]["e0"]["addresses"], now["routes"], now["connected"] = [], [], []
    monkeypatch.setattr(transaction_engine, "read_kernel_view", lambda names: now)
    steps = transaction_engine.build_kernel_commands(before, 100)
    assert [" ".join(step) for step in steps] == [
        "ip addr add 10.0.0.5/24 broadcast 10.0.0.255 noprefixroute valid_lft 3500 preferred_lft 3500 dev e0",
        "ip -4 route replace 10.0.0.0/24 proto kernel scope link src 10.0.0.5 metric 100 dev e0",
        "ip -4 route replace default via 10.0.0.1 proto dhcp src 10.0.0.5 metric 100 dev e0",
    ]
    assert {transaction_engine.get_owner_patience(step, before) for step in steps} == {
        transaction_engine.LEASE_SECONDS
    }
    # it goes with its address, and what an older version saved knows of none
    now["connected"] = [["-4", "e0", "10.9.0.0/24 proto kernel"]]
    older = {"e0": {key: before["links"]["e0"][key] for key in ("mtu", "up", "addresses")}}
    for then in (before, {"links": older, "routes": before["routes"]}):
        assert not [
            step for step in transaction_engine.build_kernel_commands(then) if "del" in step
        ]


def test_a_route_that_is_there_is_not_insisted_on_because_its_address_lost_a_flag(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """`ip addr replace` of an IPv6 address takes noprefixroute off; the owner's route stays."""
    route = ["-6", "e0", "fd00::/64 proto kernel metric 100 pref medium"]
    link = {"mtu": 1500, "up": True, "addresses": ["fd00::5/64"], "leases": []}
    before = {"links": {"e0": link | {"manner": {"fd00::5/64": ["noprefixroute"]}}}}
    now = {"links": {"e0": link | {"manner": {"fd00::5/64": []}}}}
    both: dict[str, Any] = {"routes": [], "connected": [route]}
    monkeypatch.setattr(transaction_engine, "read_kernel_view", lambda names: now | both)
    assert transaction_engine.build_kernel_commands(before | both) == []
    both["connected"] = []
    assert [
        step[3]
        for step in transaction_engine.build_kernel_commands(before | both | {"connected": [route]})
    ] == ["replace"]


# `ip -o route show table all`, `ip rule` and `ip -o nexthop` of iproute2 6.1, on a node with FRR.
EVERYTHING = {
    "-4 route": r"""default via 10.0.0.1 dev e0 proto static
default via 10.0.0.1 dev e0 table 100 proto static
10.5.0.0/16 proto static metric 20 \	nexthop via 10.0.0.1 dev e0 weight 1 \	nexthop via 10.9.0.1 dev e9 weight 1
10.6.0.0/16 nhid 30 proto zebra metric 20 \	nexthop via 10.0.0.1 dev e0 weight 1 \	nexthop via 10.0.0.2 dev e0 weight 1
10.7.0.0/16 nhid 7 via inet6 fe80::1 dev e0 proto zebra metric 20
10.8.0.0/16 via 10.9.0.1 dev e9
unreachable 10.78.1.0/24
10.0.0.0/24 dev e0 proto kernel scope link src 10.0.0.5
local 10.0.0.5 dev e0 table local proto kernel scope host src 10.0.0.5""",
    "-4 rule": """0:	from all lookup local
1000:	from all lookup [l3mdev-table]
32765:	from 10.0.0.5 lookup 100
32766:	from all lookup main""",
    "nexthop": """id 7 via fe80::1 dev e0 scope link proto zebra
id 8 via 10.0.0.2 dev e0 scope link linkdown proto zebra
id 9 via 10.9.0.2 dev e9 scope link proto zebra
id 30 group 7/8,2 proto zebra
id 31 group 9 proto zebra""",
}


def test_every_table_the_rules_and_the_nexthops_come_back(monkeypatch: pytest.MonkeyPatch) -> None:
    link = '[{"ifname": "e0", "flags": ["UP"], "mtu": 1500, "addr_info": []}]'

    def ask(command: list[str]) -> str:
        words = " ".join(command)
        return next(
            (text for key, text in EVERYTHING.items() if key in words.replace("-o ", "")),
            link if "addr" in command else "",
        )

    monkeypatch.setattr(transaction_engine, "read_command_output", ask)
    before = transaction_engine.read_kernel_view(["e0"])
    assert transaction_engine.build_kernel_commands(before) == []
    gone = {**before, "routes": [], "nexthops": [], "rules": []}
    monkeypatch.setattr(transaction_engine, "read_kernel_view", lambda names: gone)
    assert [" ".join(step) for step in transaction_engine.build_kernel_commands(before)] == [
        "ip nexthop replace id 7 via fe80::1 dev e0 proto zebra",
        "ip nexthop replace id 8 via 10.0.0.2 dev e0 proto zebra",
        "ip nexthop replace id 30 group 7/8,2 proto zebra",
        "ip -4 route replace default via 10.0.0.1 proto static dev e0",
        "ip -4 route replace default via 10.0.0.1 table 100 proto static dev e0",
        "ip -4 route replace 10.5.0.0/16 proto static metric 20 nexthop via 10.0.0.1 dev e0 weight 1 "
        "nexthop via 10.9.0.1 dev e9 weight 1",
        "ip -4 route replace 10.6.0.0/16 nhid 30 proto zebra metric 20",
        "ip -4 route replace 10.7.0.0/16 nhid 7 proto zebra metric 20",
        "ip -4 route replace unreachable 10.78.1.0/24",
        "ip -4 rule add priority 0 from all lookup local",
        "ip -4 rule add priority 32765 from 10.0.0.5 lookup 100",
        "ip -4 rule add priority 32766 from all lookup main",
    ]


def test_a_daemon_s_routes_are_never_taken_away(monkeypatch: pytest.MonkeyPatch) -> None:
    later = [["-4", "e0", "10.1.0.0/16 via 10.0.0.1 proto bird metric 32"]]
    own = [["-4", "e0", "10.2.0.0/16 via 10.0.0.1 proto static"]]
    monkeypatch.setattr(transaction_engine, "read_kernel_view", lambda names: view([], later + own))
    assert [step[4] for step in transaction_engine.build_kernel_commands(view([], []))] == [
        "10.2.0.0/16"
    ]


@pytest.mark.parametrize(
    ("line", "route"),
    [
        ("blackhole 203.0.113.0/24 table 100", "blackhole 203.0.113.0/24 table 100"),
        # as iproute2 6.1 shows IPv6's
        (
            "prohibit 2001:db8:9::/48 dev lo table 100 metric 1024 error -13 pref medium",
            "prohibit 2001:db8:9::/48 table 100 metric 1024 pref medium",
        ),
        ("unreachable default dev lo table 5 proto kernel metric 4294967295 error -101", None),
        ("broadcast 10.0.0.255 dev e0 table local", None),
    ],
)
def test_a_route_that_refuses_is_over_no_interface(line: str, route: str | None) -> None:
    """Found by tests/cuts/test_others_cuts.py: systemd-networkd drops others' on the way back."""
    assert transaction_engine.parse_route_line(["e0"], "-4", line) == (route and ["-4", "", route])


def test_a_route_that_refuses_and_came_later_is_never_taken_away(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    later = [["-4", "", "blackhole 203.0.113.0/24"]]
    monkeypatch.setattr(transaction_engine, "read_kernel_view", lambda names: view([], later))
    assert transaction_engine.build_kernel_commands(view([], [])) == []


def test_a_warning_is_no_part_of_an_answer() -> None:
    script = "echo '[]'; echo 'Cannot open a table' >&2"
    assert transaction_engine.read_command_output(["/bin/sh", "-c", script]) == "[]"
    assert transaction_engine.run_with_deadline(["/bin/sh", "-c", script])[1] != "[]"


@pytest.mark.parametrize(
    ("left", "age", "then"),
    [(3600, 0, 3600), (3600, 100, 3500), (120, 100, 60), (3600, 9000, 60), (30, 10, 30)],
)
def test_a_lease_is_no_longer_than_it_was(left: int, age: int, then: int) -> None:
    words = ["noprefixroute", "valid_lft", str(left), "preferred_lft", str(left)]
    assert transaction_engine.age_lease_times(words, age)[2::2] == [str(then), str(then)]
    assert transaction_engine.age_lease_times(["metric", "7"], age) == ["metric", "7"]


def test_a_route_is_known_without_what_changes_by_itself() -> None:
    assert transaction_engine.strip_route_state(
        "default via fe80::1 proto ra metric 100 expires 1795sec pref low"
    ) == ("default via fe80::1 proto ra metric 100 pref low")
    # without the word the kernel refuses a gateway that is in no network of the link (ip-route(8))
    assert (
        transaction_engine.strip_route_state("default via 192.0.2.1 linkdown onlink")
        == "default via 192.0.2.1 onlink"
    )
    assert not transaction_engine.is_restorable_route(
        "10.0.0.0/24 proto kernel scope link src 10.0.0.5"
    )


# --- the log ----------------------------------------------------------------------------------------


def test_the_log_is_bounded_and_keeps_the_newest(node: Machine) -> None:
    node.store.mkdir()
    for number in range(3000):
        transaction_engine.append_log(str(node.store), f"line {number} " + "x" * 60)
    assert (node.store / "log").stat().st_size < transaction_engine.LOG_BYTES + 200
    assert node.log().splitlines()[-1].split()[2] == "2999"
    assert all(line.split()[1] == "line" for line in node.log().splitlines())


@given(st.lists(st.binary(max_size=200), max_size=4), st.lists(st.booleans(), min_size=4))
def test_any_bytes_come_back(contents: list[bytes], gone: list[bool]) -> None:
    import tempfile  # noqa: PLC0415 (hypothesis has no function-scoped tmp_path)

    with tempfile.TemporaryDirectory() as top:
        kept = Path(top) / "kept"
        kept.mkdir()
        paths = [Path(top) / str(number) for number in range(len(contents))]
        for path, data in zip(paths, contents):
            path.write_bytes(data)
        before = manifest(Path(top))
        entries = [transaction_engine.save_path(str(p), n, str(kept)) for n, p in enumerate(paths)]
        for path, away in zip(paths, gone):
            path.unlink() if away else path.write_bytes(b"changed")
        for entry in entries:
            transaction_engine.restore_saved_path(entry, str(kept))
        for saved in kept.iterdir():
            saved.unlink()
        assert manifest(Path(top)) == before
