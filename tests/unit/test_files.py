"""module_utils/fullmesh/files.py: what readers see of a file that is replaced, and what a failure leaves."""

from __future__ import annotations

import errno
import hashlib
import os
import stat
from pathlib import Path
from typing import Any

import pytest
from ansible.module_utils.fullmesh import files


def raising(number: int) -> Any:
    """A call of the kernel that fails."""

    def fail(*_args: Any, **_more: Any) -> None:
        raise OSError(number, os.strerror(number))

    return fail


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "conf").write_text("old\n")
    (tmp_path / "conf").chmod(0o640)
    return tmp_path


@pytest.mark.parametrize("call", ["fsync", "chmod", "rename"])
def test_a_failure_leaves_the_old_file_and_nothing_beside_it(
    folder: Path, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    monkeypatch.setattr(os, call, raising(errno.ENOSPC))
    with pytest.raises(OSError, match="No space left"):
        files.put(str(folder / "conf"), "new\n")
    assert [path.name for path in folder.iterdir()] == ["conf"]
    assert (folder / "conf").read_text() == "old\n"


def test_who_holds_the_old_file_keeps_all_of_it(folder: Path) -> None:
    with (folder / "conf").open() as held:
        files.put(str(folder / "conf"), "new\n")
        assert held.read() == "old\n"
    assert (folder / "conf").read_text() == "new\n"


@pytest.mark.parametrize(("given", "mode"), [(None, 0o640), (0o600, 0o600)])
def test_the_mode_is_kept_unless_another_is_asked_for(
    folder: Path, given: int | None, mode: int
) -> None:
    files.put(str(folder / "conf"), b"new\n", given)
    assert stat.S_IMODE((folder / "conf").stat().st_mode) == mode


@pytest.mark.skipif(os.getuid() != 0, reason="only root gives a file away")
def test_the_owner_is_kept_unless_another_is_asked_for(folder: Path) -> None:
    os.chown(folder / "conf", 12, 34)
    files.put(str(folder / "conf"), "new\n")
    info = (folder / "conf").stat()
    assert (info.st_uid, info.st_gid) == (12, 34)
    files.put(str(folder / "conf"), "new\n", None, (5, 6))
    info = (folder / "conf").stat()
    assert (info.st_uid, info.st_gid) == (5, 6)


def test_a_new_file_can_be_read_by_all_whatever_the_umask(tmp_path: Path) -> None:
    before = os.umask(0o077)
    try:
        files.put(str(tmp_path / "file"), "text\n")
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "file").stat().st_mode) == 0o644


def test_folders_are_made(tmp_path: Path) -> None:
    files.put(str(tmp_path / "a/b/file"), "text\n")
    assert (tmp_path / "a/b/file").read_text() == "text\n"


@pytest.mark.parametrize("number", [errno.EBUSY, errno.EXDEV])
def test_a_mount_point_is_written_through(
    folder: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    inode = (folder / "conf").stat().st_ino
    monkeypatch.setattr(os, "rename", raising(number))
    files.put(str(folder / "conf"), "n\n", 0o600)
    assert (folder / "conf").read_text() == "n\n"
    assert (folder / "conf").stat().st_ino == inode
    assert stat.S_IMODE((folder / "conf").stat().st_mode) == 0o600
    assert [path.name for path in folder.iterdir()] == ["conf"]


def test_the_context_of_the_old_file_is_kept_where_the_node_lets_us(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given: list[tuple[str, bytes]] = []
    contexts = {str(folder / "conf"): b"system_u:object_r:net_conf_t:s0\0"}

    def getxattr(path: str, _name: str) -> bytes:
        return contexts.get(str(path), b"system_u:object_r:etc_t:s0\0")

    monkeypatch.setattr(os, "getxattr", getxattr)
    monkeypatch.setattr(os, "setxattr", lambda _path, name, value: given.append((name, value)))
    files.put(str(folder / "conf"), "new\n")
    assert given == [("security.selinux", b"system_u:object_r:net_conf_t:s0")]
    monkeypatch.setattr(os, "setxattr", raising(errno.EPERM))
    files.put(str(folder / "conf"), "newer\n")
    assert (folder / "conf").read_text() == "newer\n"
    with pytest.raises(PermissionError):
        files.put(str(folder / "conf"), "newest\n", context="system_u:object_r:hosts_t:s0")
    assert (folder / "conf").read_text() == "newer\n"


def test_what_is_not_utf8_survives(tmp_path: Path) -> None:
    path = tmp_path / "hosts"
    path.write_bytes(b"10.0.0.1 caf\xe9\n")
    files.put(str(path), files.read(str(path)) + "10.0.0.2 b\n")
    assert path.read_bytes() == b"10.0.0.1 caf\xe9\n10.0.0.2 b\n"


def test_only_a_file_that_is_not_there_is_empty(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    assert files.read(str(tmp_path / "none")) == ""
    assert files.read(str(tmp_path / "file/below")) == ""
    with pytest.raises(IsADirectoryError):
        files.read(str(tmp_path))
    assert files.look(str(tmp_path)) == ""


def test_no_text_means_no_file(folder: Path) -> None:
    files.settle(str(folder / "conf"), "")
    files.settle(str(folder / "none"), "")
    assert not list(folder.iterdir())
    files.settle(str(folder / "conf"), "text\n")
    assert (folder / "conf").read_text() == "text\n"


def test_a_large_file_has_the_checksum_of_all_its_bytes(tmp_path: Path) -> None:
    data = os.urandom(files.BLOCK + 17)
    (tmp_path / "wheel").write_bytes(data)
    assert files.sha256(str(tmp_path / "wheel")) == hashlib.sha256(data).hexdigest()


@pytest.mark.parametrize(
    ("text", "lines", "whole"),
    [
        ("", [], []),
        ("a\n", ["a"], ["a\n"]),
        ("a\nb", ["a", "b"], ["a\n", "b"]),
        ("a\n\nb", ["a", "", "b"], ["a\n", "\n", "b"]),
        ("\na\n\n", ["", "a", ""], ["\n", "a\n", "\n"]),
    ],
)
def test_a_text_and_its_lines(text: str, lines: list[str], whole: list[str]) -> None:
    """Mutants: the end of the last line is no line, and a blank line is one wherever it stands."""
    assert files.lines_of(text) == lines
    assert files.whole_lines(text) == whole


@pytest.mark.skipif(os.getuid() != 0, reason="only root gives a file away")
def test_who_is_given_a_mode_keeps_the_owner(folder: Path) -> None:
    """A mutant: an owner of 0 is root, and only -1 is nobody's change."""
    os.chown(folder / "conf", 12345, 12346)
    files.dress(str(folder / "conf"), 0o600)
    info = (folder / "conf").stat()
    assert (info.st_uid, info.st_gid, stat.S_IMODE(info.st_mode)) == (12345, 12346, 0o600)


def test_folders_that_are_made_can_be_entered_by_everybody(folder: Path) -> None:
    before = os.umask(0o022)
    try:
        files.put(str(folder / "one/two/conf"), "x\n")
    finally:
        os.umask(before)
    assert [stat.S_IMODE((folder / one).stat().st_mode) for one in ("one", "one/two")] == [
        0o755
    ] * 2
