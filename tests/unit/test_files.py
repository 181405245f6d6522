"""module_utils/fullmesh/files.py: the view of readers during a replacement, and the state after a failure."""

from __future__ import annotations

import ast
import contextlib
import errno
import hashlib
import os
import pwd
import random
import shutil
import stat
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from ansible.module_utils.fullmesh import (
    account,
    answer,
    docker_runtime,
    file_set,
    files,
    kernel,
)
from ansible.module_utils.fullmesh.facts.sysctl import SysctlNode
from ansible.module_utils.fullmesh.network import change
from ansible.module_utils.fullmesh.network.backends.common import HEAD
from ansible.module_utils.fullmesh.state import observe, restore

from fullmesh.settings import ROOT


def raising(number: int) -> Any:
    """Return a kernel call that fails with an error."""

    def fail(*_args: Any, **_more: Any) -> None:
        raise OSError(number, os.strerror(number))

    return fail


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "conf").write_text("old\n")
    (tmp_path / "conf").chmod(0o640)
    return tmp_path


@pytest.mark.parametrize("call", ["fsync", "fchmod", "rename"])
def test_a_failure_leaves_only_the_old_file(
    folder: Path, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    monkeypatch.setattr(os, call, raising(errno.ENOSPC))
    with pytest.raises(OSError, match="No space left"):
        files.write_file_atomically(str(folder / "conf"), "new\n")
    assert [path.name for path in folder.iterdir()] == ["conf"]
    assert (folder / "conf").read_text() == "old\n"


def test_a_reader_of_the_old_file_keeps_all_of_it(folder: Path) -> None:
    with (folder / "conf").open() as held:
        files.write_file_atomically(str(folder / "conf"), "new\n")
        assert held.read() == "old\n"
    assert (folder / "conf").read_text() == "new\n"


@pytest.mark.parametrize(("given", "mode"), [(None, 0o640), (0o600, 0o600)])
def test_the_mode_is_kept_unless_requested(folder: Path, given: int | None, mode: int) -> None:
    files.write_file_atomically(str(folder / "conf"), b"new\n", given)
    assert stat.S_IMODE((folder / "conf").stat().st_mode) == mode


@pytest.mark.skipif(os.getuid() != 0, reason="only root gives a file away")
def test_the_owner_is_kept_unless_requested(folder: Path) -> None:
    os.chown(folder / "conf", 12, 34)
    files.write_file_atomically(str(folder / "conf"), "new\n")
    info = (folder / "conf").stat()
    assert (info.st_uid, info.st_gid) == (12, 34)
    files.write_file_atomically(str(folder / "conf"), "new\n", None, (5, 6))
    info = (folder / "conf").stat()
    assert (info.st_uid, info.st_gid) == (5, 6)


def test_a_new_file_is_readable_by_all_despite_the_umask(tmp_path: Path) -> None:
    before = os.umask(0o077)
    try:
        files.write_file_atomically(str(tmp_path / "file"), "text\n")
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "file").stat().st_mode) == 0o644


def test_folders_are_made(tmp_path: Path) -> None:
    files.write_file_atomically(str(tmp_path / "a/b/file"), "text\n")
    assert (tmp_path / "a/b/file").read_text() == "text\n"


@pytest.mark.parametrize("number", [errno.EBUSY, errno.EXDEV])
def test_a_mount_point_is_written_through(
    folder: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    inode = (folder / "conf").stat().st_ino
    monkeypatch.setattr(os, "rename", raising(number))
    files.write_file_atomically(str(folder / "conf"), "n\n", 0o600)
    assert (folder / "conf").read_text() == "n\n"
    assert (folder / "conf").stat().st_ino == inode
    assert stat.S_IMODE((folder / "conf").stat().st_mode) == 0o600
    assert [path.name for path in folder.iterdir()] == ["conf"]


def test_the_selinux_context_is_kept_if_permitted(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given: list[tuple[str, bytes]] = []

    def getxattr(path: str | int, _name: str) -> bytes:
        old = not isinstance(path, int) and path.endswith("/conf")
        return b"system_u:object_r:net_conf_t:s0\0" if old else b"system_u:object_r:etc_t:s0\0"

    monkeypatch.setattr(os, "getxattr", getxattr)
    monkeypatch.setattr(os, "setxattr", lambda _path, name, value: given.append((name, value)))
    files.write_file_atomically(str(folder / "conf"), "new\n")
    assert given == [("security.selinux", b"system_u:object_r:net_conf_t:s0")]
    monkeypatch.setattr(os, "setxattr", raising(errno.EPERM))
    files.write_file_atomically(str(folder / "conf"), "newer\n")
    assert (folder / "conf").read_text() == "newer\n"
    with pytest.raises(PermissionError):
        files.write_file_atomically(
            str(folder / "conf"), "newest\n", context="system_u:object_r:hosts_t:s0"
        )
    assert (folder / "conf").read_text() == "newer\n"


def test_text_that_is_not_utf8_survives(tmp_path: Path) -> None:
    path = tmp_path / "hosts"
    path.write_bytes(b"10.0.0.1 caf\xe9\n")
    files.write_file_atomically(str(path), files.read_text_file(str(path)) + "10.0.0.2 b\n")
    assert path.read_bytes() == b"10.0.0.1 caf\xe9\n10.0.0.2 b\n"


def test_only_a_file_that_is_not_there_is_empty(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    assert files.read_text_file(str(tmp_path / "none")) == ""
    assert files.read_text_file(str(tmp_path / "file/below")) == ""
    with pytest.raises(IsADirectoryError):
        files.read_text_file(str(tmp_path))
    assert files.read_text_or_empty(str(tmp_path)) == ""


def test_no_text_means_no_file(folder: Path) -> None:
    files.write_or_remove_file(str(folder / "conf"), "")
    files.write_or_remove_file(str(folder / "none"), "")
    assert not list(folder.iterdir())
    files.write_or_remove_file(str(folder / "conf"), "text\n")
    assert (folder / "conf").read_text() == "text\n"


def test_a_large_file_has_the_checksum_of_all_its_bytes(tmp_path: Path) -> None:
    data = random.Random(1).randbytes(files.BLOCK + 17)  # noqa: S311 (bytes, no secret)
    (tmp_path / "wheel").write_bytes(data)
    assert files.hash_file(str(tmp_path / "wheel")) == hashlib.sha256(data).hexdigest()


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
    """Cover two mutants: the end of the last line is not a line, and a blank line counts anywhere."""
    assert files.split_lines(text) == lines
    assert files.split_whole_lines(text) == whole


@pytest.mark.skipif(os.getuid() != 0, reason="only root gives a file away")
def test_a_requested_mode_keeps_the_owner(folder: Path) -> None:
    """Cover a mutant: owner 0 means root, and only -1 keeps the owner."""
    os.chown(folder / "conf", 12345, 12346)
    with (folder / "conf").open() as stream:
        files.set_file_attributes(stream.fileno(), 0o600)
    info = (folder / "conf").stat()
    assert (info.st_uid, info.st_gid, stat.S_IMODE(info.st_mode)) == (12345, 12346, 0o600)


def test_new_folders_are_open_to_all_users(folder: Path) -> None:
    before = os.umask(0o022)
    try:
        files.write_file_atomically(str(folder / "one/two/conf"), "x\n")
    finally:
        os.umask(before)
    assert [stat.S_IMODE((folder / one).stat().st_mode) for one in ("one", "one/two")] == [
        0o755
    ] * 2


# --- folders of other accounts --------------------------------------------------------------------

AS_ROOT = pytest.mark.skipif(os.getuid() != 0, reason="only root can be led to files of others")
STRANGER = 65534
TAKE = """
import os, sys
print(os.getuid(), flush=True)
while True:
    for name in os.listdir("."):
        if name.startswith(".fullmesh-"):
            try:
                os.rename(name, "taken")
                os.symlink(sys.argv[1], name)
            except OSError:
                pass
"""


@pytest.fixture
def secret(tmp_path: Path) -> Iterator[Path]:
    """Make a file that only root may read. It must stay unchanged in each test."""
    path = tmp_path / "secret"
    path.write_text("secret\n")
    path.chmod(0o600)
    os.utime(path, (1, 1))
    before = path.stat()
    yield path
    assert path.read_text() == "secret\n"
    after = path.stat()
    assert [getattr(after, one) for one in ("st_mode", "st_uid", "st_gid", "st_mtime")] == [
        getattr(before, one) for one in ("st_mode", "st_uid", "st_gid", "st_mtime")
    ]


@pytest.fixture
def foreign_folder(tmp_path: Path) -> Path:
    """Make a folder of an account that is not root."""
    folder = tmp_path / "foreign"
    folder.mkdir()
    os.chown(folder, STRANGER, STRANGER)
    return folder


def swap_after_mkstemp(monkeypatch: pytest.MonkeyPatch, target: Path) -> None:
    """Replace every temporary file with a link as soon as it exists."""
    make = tempfile.mkstemp

    def swapped(*args: Any, **more: Any) -> tuple[int, str]:
        handle, name = make(*args, **more)
        os.rename(name, os.path.dirname(name) + "/taken")
        os.symlink(target, name)
        return handle, name

    monkeypatch.setattr(tempfile, "mkstemp", swapped)


@AS_ROOT
@pytest.mark.parametrize("owner", [None, (STRANGER, STRANGER)])
def test_a_swapped_temporary_file_does_not_redirect_root(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, secret: Path, owner: tuple[int, int] | None
) -> None:
    swap_after_mkstemp(monkeypatch, secret)
    monkeypatch.setattr(os, "setxattr", lambda one, *_: isinstance(one, int) or pytest.fail(one))
    files.replace_file(str(tmp_path / "f"), b"x\n", 0o644, owner, "system_u:object_r:etc_t:s0")
    # the account renamed its own file only
    assert os.readlink(tmp_path / "f") == str(secret)


@AS_ROOT
def test_a_mount_point_replaced_by_a_link_is_not_written(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, secret: Path
) -> None:
    monkeypatch.setattr(os, "rename", raising(errno.EBUSY))
    (tmp_path / "f").symlink_to(secret)
    with pytest.raises(OSError, match="symbolic link"):
        files.write_file_atomically(str(tmp_path / "f"), "x\n", 0o644)


@AS_ROOT
def test_a_file_in_an_accounts_folder_belongs_to_it(foreign_folder: Path) -> None:
    files.write_file_atomically(str(foreign_folder / "more/f"), "x\n", 0o640, (0, 0))
    for path, mode in ((foreign_folder / "more/f", 0o640), (foreign_folder / "more", 0o700)):
        info = path.stat()
        assert (info.st_uid, info.st_gid, stat.S_IMODE(info.st_mode)) == (STRANGER, STRANGER, mode)
    assert os.listdir(foreign_folder / "more") == ["f"]
    # a file that an older version wrote as root
    os.chown(foreign_folder / "more/f", 0, 0)
    files.write_file_atomically(str(foreign_folder / "more/f"), "y\n", None, (0, 0))
    assert (foreign_folder / "more/f").stat().st_uid == STRANGER


@AS_ROOT
def test_an_account_that_swaps_names_quickly_gains_nothing(
    foreign_folder: Path, secret: Path
) -> None:
    python = shutil.which("python3", path="/usr/bin:/bin") or "python3"
    command = [python, "-I", "-c", TAKE, str(secret)]
    with subprocess.Popen(
        command,
        cwd=foreign_folder,
        user=STRANGER,
        group=STRANGER,
        extra_groups=[],
        stdout=subprocess.PIPE,
    ) as stranger:
        try:
            assert stranger.stdout
            assert int(stranger.stdout.readline()) == STRANGER
            for _ in range(40):
                with contextlib.suppress(OSError):  # the account may break its own files
                    files.write_file_atomically(
                        str(foreign_folder / "fullmesh.prom"), "# HELP x\n" * 200, 0o644, (0, 0)
                    )
                assert stat.S_IMODE(secret.stat().st_mode) == 0o600
        finally:
            stranger.kill()


@AS_ROOT
@pytest.mark.parametrize(("mode", "group"), [(0o777, 0), (0o1777, 0), (0o775, 65534)])
def test_a_folder_of_roots_that_others_can_change_is_refused(
    tmp_path: Path, mode: int, group: int
) -> None:
    folder = tmp_path / "shared"
    folder.mkdir()
    os.chown(folder, 0, group)
    folder.chmod(mode)
    with pytest.raises(account.ForeignFolderError, match=f"chmod go-w {folder}"):
        files.write_file_atomically(str(folder / "f"), "x\n")
    assert not list(folder.iterdir())


@AS_ROOT
def test_a_group_of_root_counts_unless_an_acl_hides_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tmp_path.chmod(0o770)
    files.write_file_atomically(str(tmp_path / "f"), "x\n")
    monkeypatch.setattr(os, "getxattr", lambda *_: b"list")
    with pytest.raises(account.ForeignFolderError, match="mode 0770"):
        files.write_file_atomically(str(tmp_path / "f"), "y\n")


@AS_ROOT
def test_a_link_is_followed_only_if_root_made_it(tmp_path: Path, foreign_folder: Path) -> None:
    target = tmp_path / "target"
    target.mkdir()
    for link, to in (("absolute", str(target)), ("relative", "../target"), ("up", "foreign")):
        (tmp_path / link).symlink_to(to if to != "../target" else "foreign/../target")
    files.write_file_atomically(str(tmp_path / "absolute/f"), "x\n")
    files.write_file_atomically(str(tmp_path / "relative/g"), "x\n")
    assert sorted(os.listdir(target)) == ["f", "g"]
    (foreign_folder / "link").symlink_to(target)
    with pytest.raises(account.ForeignFolderError, match="through the link 'link'"):
        files.write_file_atomically(str(foreign_folder / "link/h"), "x\n")
    (tmp_path / "round").symlink_to("round")
    with pytest.raises(OSError, match="Too many levels"):
        account.act_in_folder(str(tmp_path / "round"), lambda _: None)


@AS_ROOT
def test_a_renamed_folder_stays_the_checked_one(
    tmp_path: Path, foreign_folder: Path, secret: Path
) -> None:
    """Cover Debian's folder: root's, in a folder of the account prometheus, which can rename it."""
    (foreign_folder / "root").mkdir()

    def work(here: str) -> None:
        (foreign_folder / "root").rename(foreign_folder / "moved")
        (foreign_folder / "root").symlink_to(tmp_path)
        files.replace_file(here + "/secret", b"x\n", 0o644, None, "")

    account.act_in_folder(str(foreign_folder / "root"), work)
    assert os.listdir(foreign_folder / "moved") == ["secret"]
    assert (foreign_folder / "moved/secret").stat().st_uid == 0


@AS_ROOT
def test_an_error_names_the_folder_and_its_numeric_owner(
    tmp_path: Path, foreign_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(here: str) -> None:
        os.rename(here + "/a", here + "/b")

    with pytest.raises(FileNotFoundError) as raised:
        account.act_in_folder(str(tmp_path), fail)
    assert (raised.value.filename, raised.value.filename2) == (f"{tmp_path}/a", f"{tmp_path}/b")

    def unknown_user(_uid: int) -> pwd.struct_passwd:
        raise KeyError

    monkeypatch.setattr(pwd, "getpwuid", unknown_user)
    files.write_file_atomically(str(foreign_folder / "f"), "x\n")
    assert (foreign_folder / "f").stat().st_uid == STRANGER


ASIDE = {"rename", "replace", "unlink", "exists", "lexists", "atomic_move"}


def misused_names(tree: ast.AST) -> list[int]:
    """List the lines that pass a name of mkstemp to a call that could follow a link."""
    lines = []
    for function in ast.walk(tree):
        if not isinstance(function, ast.FunctionDef):
            continue
        names = {
            one.targets[0].elts[1].id
            for one in ast.walk(function)
            if isinstance(one, ast.Assign)
            and isinstance(one.value, ast.Call)
            and getattr(one.value.func, "attr", getattr(one.value.func, "id", "")) == "mkstemp"
            and isinstance(one.targets[0], ast.Tuple)
            and isinstance(one.targets[0].elts[1], ast.Name)
        }
        lines += [
            call.lineno
            for call in ast.walk(function)
            if isinstance(call, ast.Call)
            and names & {one.id for one in call.args if isinstance(one, ast.Name)}
            and getattr(call.func, "attr", getattr(call.func, "id", "")) not in ASIDE
        ]
    return lines


def test_node_code_uses_temporary_files_by_descriptor() -> None:
    bad = "def f():\n h, n = tempfile.mkstemp()\n os.chmod(n, 0)\n os.rename(n, 'x')\n dress(n)\n"
    assert misused_names(ast.parse(bad)) == [3, 5]
    found, made = [], 0
    for top in ("library", "module_utils", "node_programs", "roles"):
        for path in sorted((ROOT / top).rglob("*.py")):
            text = path.read_text(encoding="utf-8")
            if "mkstemp(" not in text:
                continue
            made += 1
            found += [f"{path.relative_to(ROOT)}:{one}" for one in misused_names(ast.parse(text))]
    assert found == []
    assert made >= 3, "the pattern has gone stale"


# --- what a diff shows ------------------------------------------------------------------------------

PRIVATE = "password: hunter2\n"


def diff_of_links(root: Path, path: str) -> object:
    new: Any = {path: {"text": "# fullmesh: " + PRIVATE, "mode": 0o600}}
    return change.diff_links(str(root), {path: PRIVATE}, new, [])


def diff_of_undone_links(root: Path, path: str) -> object:
    """Return the diff of an undo: the old profile replaces ours."""
    (root / path[1:]).write_text(HEAD)
    new: Any = {path: {"text": PRIVATE, "mode": 0o600}}
    return change.diff_links(str(root), {path: HEAD}, new, [])


def diff_of_written_file(root: Path, path: str) -> object:
    before = file_set.read_file_state(str(root) + path)
    after: file_set.FileState = {"exists": True, "content": b"hunter22\n", "mode": 0o600}
    return file_set.diff_file_change({"path": path, "before": before, "after": after})


def diff_of_undo(root: Path, path: str) -> object:
    entry = observe.observe_file(observe.NodeSystem(str(root), lambda _: (0, "", "")), path)
    return restore.format_file_before(entry, PRIVATE.encode())


def diff_of_tuning(root: Path, path: str) -> object:
    params: Any = {"path": path}
    tuner = kernel.KernelTuner(params, True, SysctlNode(str(root)), lambda: None)
    tuner.file(path, "new\n")
    return tuner.diff


def diff_of_docker(root: Path, path: str) -> object:
    (root / path[1:]).write_text('{"proxies": {"http-proxy": "http://a:hunter2@b"}}')
    return docker_runtime.configure_docker_runtime(lambda _: (0, "", ""), True, True, str(root))[
        "diff"
    ]


DIFFS = {
    "/etc/netplan/50-x.yaml": diff_of_links,
    "/etc/netplan/90-fullmesh.yaml": diff_of_undone_links,
    "/etc/written": diff_of_written_file,
    "/etc/undone": diff_of_undo,
    "/etc/sysctl.d/90-fullmesh.conf": diff_of_tuning,
    docker_runtime.PLACE: diff_of_docker,
    "/etc/sources.list": lambda root, path: answer.diff_file(path, PRIVATE, "", str(root)),
}


@pytest.mark.parametrize("path", DIFFS)
def test_a_diff_hides_a_private_file(tmp_path: Path, path: str) -> None:
    there = tmp_path / path[1:]
    there.parent.mkdir(parents=True)
    there.write_text(PRIVATE)
    there.chmod(0o640)
    shown = str(DIFFS[path](tmp_path, path))
    assert "hunter2" not in shown
    assert "sha256" in shown


def test_a_diff_shows_public_files_and_values_of_the_plan(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("old\n")
    assert answer.diff_file("/file", "old\n", "new\n", str(tmp_path)) == {
        "before": "old\n",
        "after": "new\n",
        "before_header": "/file",
        "after_header": "/file",
    }
    # a profile from the plan, which NetworkManager requires to be private
    new: Any = {"/profile": {"text": HEAD + "[ipv4]\n", "mode": 0o600}}
    assert "[ipv4]" in str(change.diff_links(str(tmp_path), {}, new, []))
