"""Other work on a node: it shows in locks, units and cloud-init's files, and a run waits for it."""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
from pathlib import Path

import pytest
from ansible.module_utils.fullmesh.facts import busy

# Output of systemctl of systemd 252. A unit that does not exist is inactive.
AT_WORK = """Id=apt-daily.service
ActiveState=inactive

Id=apt-daily-upgrade.service
ActiveState=activating
"""


def no_units(_command: list[str]) -> tuple[int, str]:
    return 0, AT_WORK.replace("activating", "inactive")


def test_a_package_lock_is_reported_with_its_holder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A real lock of a real process, as dpkg takes it. A process that waits for it does not hold it."""
    lock = tmp_path / "lock-frontend"
    lock.touch()
    monkeypatch.setattr(busy, "LOCKS", (str(lock), str(tmp_path / "none")))
    assert busy.describe_held_locks() == []
    code = "import fcntl, sys; f = open(sys.argv[1], 'w'); fcntl.lockf(f, fcntl.LOCK_EX); print(1, flush=True); input()"
    with subprocess.Popen(
        [sys.executable, "-c", code, str(lock)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as holder:
        assert holder.stdout is not None
        holder.stdout.readline()
        name = Path(f"/proc/{holder.pid}/comm").read_text().strip()
        assert busy.describe_held_locks() == [f"{name} (pid {holder.pid}) holds {lock}"]
        with monkeypatch.context() as btrfs:
            btrfs.setattr(busy.os, "major", lambda device: -1)
            assert busy.describe_held_locks() == [f"{name} (pid {holder.pid}) holds {lock}"]
        holder.communicate(b"\n")
    assert busy.describe_held_locks() == []
    with lock.open("w") as own:
        fcntl.flock(own, fcntl.LOCK_EX)  # another kind of lock, which dpkg does not take
        assert busy.describe_held_locks() == []


def test_a_process_that_waits_for_a_lock_does_not_hold_it() -> None:
    """Data of proc_locks(5) from a node on which apt waits for dpkg."""
    text = """\
1: POSIX  ADVISORY  WRITE 812 fd:00:131 0 EOF
1: -> POSIX  ADVISORY  WRITE 900 fd:00:131 0 EOF
2: POSIX  ADVISORY  READ 700 fd:00:132 0 EOF
3: FLOCK  ADVISORY  WRITE 701 00:1a:133 0 EOF
"""
    assert busy.parse_posix_locks(text) == {(0xFD, 0, 131): "812"}


def test_dnf_s_file_counts_while_its_process_lives(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "rpmdb_lock.pid"
    monkeypatch.setattr(busy, "LOCKS", ())
    monkeypatch.setattr(busy, "PIDS", (str(path),))
    assert busy.describe_held_locks() == []
    path.write_text(str(os.getpid()))
    assert [words.split(" holds ")[1] for words in busy.describe_held_locks()] == [str(path)]
    path.write_text("4194304")  # larger than any process id, so its writer is gone
    assert busy.describe_held_locks() == []
    path.write_text("")
    assert busy.describe_held_locks() == []


def test_units_that_are_at_work_are_named() -> None:
    assert busy.describe_running_updates(lambda command: (0, AT_WORK)) == [
        "apt-daily-upgrade.service runs"
    ]
    assert busy.describe_running_updates(no_units) == []
    assert busy.describe_running_updates(lambda command: (127, "")) == []


def test_cloud_init_has_ended_after_its_last_stage(tmp_path: Path) -> None:
    folder = tmp_path / "run/cloud-init"
    assert busy.describe_first_boot(str(tmp_path)) == []
    folder.mkdir(parents=True)
    (folder / "enabled").touch()
    assert busy.describe_first_boot(str(tmp_path)) == ["cloud-init has not ended"]
    (folder / "result.json").write_text("{}")
    assert busy.describe_first_boot(str(tmp_path)) == []


def test_it_waits_until_no_process_returns() -> None:
    """Between two steps of an update there is a moment without any lock."""
    seen = iter([["dpkg"], [], ["dpkg"], [], [], []])
    slept: list[float] = []
    left, _ = busy.wait_until_idle(600, lambda: next(seen), slept.append)
    assert left == []
    assert len(slept) == 4


def test_it_waits_no_longer_than_its_deadline() -> None:
    left, took = busy.wait_until_idle(0.2, lambda: ["dpkg"], lambda seconds: None)
    assert left == ["dpkg"]
    assert took < 30
    assert busy.wait_until_idle(0, lambda: [], lambda seconds: None)[0] == []
