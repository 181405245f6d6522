# Copyright (c) the Fullmesh contributors
# SPDX-License-Identifier: MIT
"""Manage keys and known hosts of the account for logins between nodes. Standard library only."""

from __future__ import annotations

import contextlib
import glob
import os
import pwd
import secrets
import shutil
import stat
import subprocess
from typing import TYPE_CHECKING, NamedTuple, TypedDict

from .account import AccountError, run_as_account
from .answer import diff_file, make_diff
from .files import SPACE, read_text_file, split_lines, write_file_atomically
from .state.record import UndoPoint

if TYPE_CHECKING:
    from .answer import Diff
    from .state.record import AccountBefore


FOLDER = "/etc/fullmesh/ssh"
OWN_KEY = "id_ed25519"
HOST_KEYS = "/etc/ssh/ssh_host_*_key.pub"
ROLE = "node_ssh"
# The local path of the node's /.
ROOT = ""
MARK = " fullmesh-cluster"
HOMES = "/home"
DOT, KEYS = ".ssh", "authorized_keys"
LARGEST = 4 << 20  # bytes of authorized_keys
TRY_SECONDS = 15
# useradd and userdel wait up to 15 s for the lock of /etc/passwd (lckpwdf(3)).
COMMAND_SECONDS = 60


class ClusterSshParams(TypedDict):
    """The parameters of cluster_ssh. The module documents them."""

    state: str
    user: str
    authorized: str
    known_hosts: str
    config: str
    peer: str
    private_key: str


class SshFolderState(TypedDict):
    """An account's .ssh: whether folder and authorized_keys exist, the file's text and owner (-1 without)."""

    folder: bool
    keys: bool
    text: str
    uid: int


class SshFile(NamedTuple):
    """A file that differs.

    ``own``: the account's. ``keys``: its authorized_keys, which is written as the account.
    """

    path: str
    before: str
    after: str
    mode: int
    own: bool = False
    keys: bool = False


class SshKeysResult(TypedDict):
    """The result of state present."""

    changed: bool
    diff: list[Diff]


class SshRemovalResult(TypedDict):
    """The result of state absent. *left*: a folder that stays, because it has files of others."""

    changed: bool
    left: str


class SshError(Exception):
    """A coded sentence for the user."""


def read_host_keys() -> list[str]:
    """Return the public lines of sshd's keys, without DSA, which every present sshd refuses."""
    lines = [
        read_text_file(path).strip(SPACE)
        for path in sorted(glob.glob(HOST_KEYS))
        if "_dsa_" not in path
    ]
    if not any(lines):
        raise SshError(
            f"[NS-102] There is no ssh host key here: {HOST_KEYS}. Fix: create them with ssh-keygen -A, and start sshd."
        )
    return [line for line in lines if line]


def find_account(user: str) -> pwd.struct_passwd | None:
    """Return the account, or None."""
    try:
        return pwd.getpwnam(user)
    except KeyError:
        return None


def run_account_command(argv: list[str]) -> None:
    """Run a command of shadow-utils. Its output is the error text."""
    try:
        done = subprocess.run(
            argv,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            check=False,
            timeout=COMMAND_SECONDS,
        )
        failed, said = done.returncode, done.stdout.decode(errors="replace").strip(SPACE)
    except subprocess.TimeoutExpired:
        failed, said = 1, f"no end after {COMMAND_SECONDS} s"
    if failed:
        said = said or f"exit status {failed}"
        raise SshError(
            "[NS-103] {} failed: {}. Fix: end this account's processes, or set another one in node_ssh_user.".format(
                " ".join(argv), split_lines(said)[-1]
            )
        )


def load_made_account() -> AccountBefore:
    """Return the parts that this role created before, so that only these are removed."""
    return UndoPoint(ROOT, ROLE).load()["part"].get("account", {})


def save_made_account(made: AccountBefore) -> None:
    """Record the created parts. This is written first, so that an interrupted run can be undone."""
    point = UndoPoint(ROOT, ROLE)
    record = point.load()
    record["part"]["account"] = made
    point.save(record, {})


def render_authorized_keys(text: str, line: str) -> str:
    """Return authorized_keys with Fullmesh's line once, or without it if *line* is empty."""
    others = [one for one in split_lines(text) if not one.rstrip("\r").endswith(MARK)]
    lines = others + ([line] if line else [])
    return "".join(one + "\n" for one in lines)


def filter_own_keys(text: str) -> str:
    """Return Fullmesh's lines. A diff of an account's file must not show others."""
    return "".join(one + "\n" for one in split_lines(text) if one.rstrip("\r").endswith(MARK))


def open_ssh_folder(home: str) -> int:
    """Open the account's .ssh. Raises for a link, because its creator could choose any target."""
    base = os.open(
        home, os.O_RDONLY | os.O_DIRECTORY
    )  # the home itself may be a link: passwd names it, and that is root's
    try:
        info = os.stat(DOT, dir_fd=base, follow_symlinks=False)
        if not stat.S_ISDIR(info.st_mode):
            raise make_wrong_type_error(os.path.join(home, DOT), base, DOT, "a directory")
        return os.open(DOT, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=base)
    finally:
        os.close(base)


def make_wrong_type_error(path: str, folder: int, name: str, wanted: str) -> AccountError:
    """Return the error for a path of the wrong type, with the target of a link."""
    try:
        what = f"a symbolic link to {os.readlink(name, dir_fd=folder)}"
    except OSError:
        what = "no link either"
    return AccountError(
        f"[NS-105] {path} is not {wanted}: {what}. "
        f"Fix: put {wanted} there, or name another account in node_ssh_user."
    )


def read_ssh_folder(home: str) -> SshFolderState:
    """Read the account's .ssh. Runs as the account."""
    found: SshFolderState = {"folder": False, "keys": False, "text": "", "uid": -1}
    try:
        folder = open_ssh_folder(home)
    except FileNotFoundError:
        return found
    found["folder"] = True
    try:
        info = os.stat(KEYS, dir_fd=folder, follow_symlinks=False)
        if not stat.S_ISREG(info.st_mode):
            raise make_wrong_type_error(os.path.join(home, DOT, KEYS), folder, KEYS, "a plain file")
        # O_NONBLOCK: opening a fifo that replaced the file must not block
        handle = os.open(KEYS, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=folder)
    except FileNotFoundError:
        return found
    finally:
        os.close(folder)
    with os.fdopen(handle, "rb") as stream:
        raw = stream.read(LARGEST + 1)
    if len(raw) > LARGEST:
        raise AccountError(
            f"[NS-105] {os.path.join(home, DOT, KEYS)} has more than {LARGEST} bytes. Fix: put a file "
            "of keys there, or name another account in "
            "node_ssh_user."
        )
    found.update({"keys": True, "text": raw.decode("utf-8", "surrogateescape"), "uid": info.st_uid})
    return found


def write_authorized_keys(home: str, line: str) -> None:
    """Add Fullmesh's line. Runs as the account. Other lines stay, and readers always see a complete file."""
    seen = read_ssh_folder(home)
    if not seen["folder"]:
        os.mkdir(os.path.join(home, DOT), 0o700)
    folder = open_ssh_folder(home)
    aside = ".fullmesh-" + secrets.token_hex(8)
    try:
        mode = 0o600
        if seen["keys"]:
            mode = stat.S_IMODE(os.stat(KEYS, dir_fd=folder, follow_symlinks=False).st_mode)
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
        handle = os.open(aside, flags, 0o600, dir_fd=folder)
        with os.fdopen(handle, "wb") as stream:
            stream.write(
                render_authorized_keys(seen["text"], line).encode("utf-8", "surrogateescape")
            )
            stream.flush()
            os.fchmod(handle, mode)
            os.fsync(handle)
        os.rename(aside, KEYS, src_dir_fd=folder, dst_dir_fd=folder)
        os.fsync(folder)
    except BaseException:
        if os.path.lexists(os.path.join(home, DOT, aside)):
            os.unlink(aside, dir_fd=folder)
        raise
    finally:
        os.close(folder)
    relabel_path(os.path.join(home, DOT))


def remove_authorized_key(home: str, made: AccountBefore) -> None:
    """Remove Fullmesh's line, and the file and folder if the role created them and they are empty.

    Runs as the account.
    """
    seen = read_ssh_folder(home)
    if seen["keys"]:
        rest = render_authorized_keys(seen["text"], "")
        if rest or not made.get("keys"):
            if rest != seen["text"]:
                write_authorized_keys(home, "")
        else:
            folder = open_ssh_folder(home)
            try:
                os.unlink(KEYS, dir_fd=folder)
            finally:
                os.close(folder)
    if made.get("folder") and seen["folder"]:
        with contextlib.suppress(OSError):  # something of the account's is in it
            os.rmdir(os.path.join(home, DOT))


def find_changed_ssh_files(
    params: ClusterSshParams, owner: pwd.struct_passwd | None
) -> list[SshFile]:
    """Return the files that have to be written."""
    home = owner.pw_dir if owner else os.path.join(HOMES, params["user"])
    seen: SshFolderState = {"folder": False, "keys": False, "text": "", "uid": -1}
    if owner and os.path.isdir(home):
        seen = run_as_account(owner, lambda: read_ssh_folder(home))
    found: list[SshFile] = []
    for name, wanted, mode in (
        (OWN_KEY, params["private_key"], 0o600),
        ("known_hosts", params["known_hosts"], 0o644),
        ("config", params["config"], 0o644),
    ):
        path, own = os.path.join(FOLDER, name), name == OWN_KEY
        before = read_text_file(path)
        uid = owner.pw_uid if owner and own else 0
        if before != wanted or not has_owner_and_mode(path, uid, mode):
            found.append(SshFile(path, before, wanted, mode, own))
    # a user's own authorized_keys keeps its mode, and a diff only shows Fullmesh's lines
    after = render_authorized_keys(seen["text"], params["authorized"])
    if seen["text"] != after or not owner or seen["uid"] != owner.pw_uid:
        path = os.path.join(home, DOT, KEYS)
        found.append(
            SshFile(path, filter_own_keys(seen["text"]), filter_own_keys(after), 0, keys=True)
        )
    return found


def has_owner_and_mode(path: str, uid: int, mode: int) -> bool:
    """Return whether owner and mode are right."""
    try:
        info = os.stat(path)
    except OSError:
        return False
    return info.st_uid == uid and stat.S_IMODE(info.st_mode) == mode


def ensure_account(params: ClusterSshParams, made: AccountBefore) -> pwd.struct_passwd:
    """Return the account.

    A missing one is created with an empty folder and no password.

    The password is '*', which is not 'locked', so sshd accepts keys.
    """
    user = params["user"]
    found = find_account(user)
    if found is None:
        made.update({"user": user, "account": True})
        save_made_account(made)
        home = os.path.join(HOMES, user)
        options = ["--system", "--user-group", "--no-create-home", "--home-dir", home]
        run_account_command(["useradd", *options, "--shell", "/bin/bash", "--password", "*", user])
        found = pwd.getpwnam(user)
    if made.get("account") and not os.path.isdir(found.pw_dir):
        os.mkdir(found.pw_dir, 0o700)
        handle = os.open(found.pw_dir, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
        try:
            os.fchown(handle, found.pw_uid, found.pw_gid)
        finally:
            os.close(handle)
    return found


def install_ssh_keys(params: ClusterSshParams, check: bool) -> SshKeysResult:
    """Install all files and the account."""
    made = load_made_account()
    moved = bool(made.get("user")) and made["user"] != params["user"]
    if moved and not check:
        remove_ssh_keys(check)
        made = {}
    owner = find_account(params["user"])
    files = find_changed_ssh_files(params, owner)
    changed = bool(files) or moved or owner is None
    shown = [
        make_diff(one.path, one.before, one.after)  # of others' keys it has nothing
        if one.keys
        else diff_file(one.path, one.before, one.after, mode=one.mode)
        for one in files
    ]
    if changed and not check:
        write_ssh_files(params, made, files)
    return {"changed": changed, "diff": shown}


def write_ssh_files(params: ClusterSshParams, made: AccountBefore, files: list[SshFile]) -> None:
    """Create the account and write the files that differ."""
    owner = ensure_account(params, made)
    seen = run_as_account(owner, lambda: read_ssh_folder(owner.pw_dir))
    made.update({"user": params["user"], "folder": not seen["folder"] or made.get("folder", False)})
    made["keys"] = made.get("keys", not seen["keys"])
    save_made_account(made)
    os.makedirs(FOLDER, exist_ok=True)
    for one in files:
        if one.keys:
            run_as_account(owner, lambda: write_authorized_keys(owner.pw_dir, params["authorized"]))
        else:
            whose = (owner.pw_uid, owner.pw_gid) if one.own else (0, 0)
            write_file_atomically(one.path, one.after, one.mode, whose)


def relabel_path(path: str) -> None:
    """Restore SELinux's default context: sshd may not be allowed to read keys of another type."""
    if shutil.which("restorecon") and os.path.isdir("/sys/fs/selinux"):
        run_account_command(["restorecon", "-RF", path])


def remove_ssh_keys(check: bool) -> SshRemovalResult:
    """Remove the created parts: the line, the files, the account, and its folder if it has no other files."""
    made = load_made_account()
    changed = bool(made) or os.path.isdir(FOLDER)
    if check or not changed:
        return {"changed": changed, "left": ""}
    owner = find_account(made.get("user", ""))
    left = remove_login(owner, made) if owner else ""
    for name in (OWN_KEY, "known_hosts", "config"):
        if os.path.exists(os.path.join(FOLDER, name)):
            os.unlink(os.path.join(FOLDER, name))
    for path in (FOLDER, os.path.dirname(FOLDER)):
        if os.path.isdir(path) and not os.listdir(path):
            os.rmdir(path)
    UndoPoint(ROOT, ROLE).forget()
    return {"changed": True, "left": left}


def remove_login(owner: pwd.struct_passwd, made: AccountBefore) -> str:
    """Remove Fullmesh's line, and the account if the role created it. Return its folder if that stays."""
    if os.path.isdir(owner.pw_dir):
        run_as_account(
            owner, lambda: read_ssh_folder(owner.pw_dir)
        )  # a refusal must come before anything is removed
    if made.get("account"):
        # first, since it refuses while the account has processes, and then nothing must have changed
        run_account_command(["userdel", owner.pw_name])
    if os.path.isdir(owner.pw_dir):
        run_as_account(owner, lambda: remove_authorized_key(owner.pw_dir, made))
    if not made.get("account") or not os.path.isdir(owner.pw_dir):
        return ""
    try:
        os.rmdir(owner.pw_dir)
    except OSError:  # it has files of others
        return str(owner.pw_dir)
    return ""


def check_peer_login(params: ClusterSshParams) -> None:
    """Log in to the peer as a job would."""
    argv = [
        "runuser",
        "-u",
        params["user"],
        "--",
        "ssh",
        "-F",
        FOLDER + "/config",
        params["peer"],
        "true",
    ]
    try:
        done = subprocess.run(
            argv,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=TRY_SECONDS,
            check=False,
            cwd="/",
        )
        said, failed = done.stdout.decode(errors="replace").strip(SPACE), done.returncode != 0
    except subprocess.TimeoutExpired:
        said, failed = f"no answer for {TRY_SECONDS} s", True
    if failed:
        raise SshError(
            "[NS-104] No login from here to {} as {}: {}. "
            "Check: `journalctl -u sshd -u ssh` on that node, and {}".format(
                params["peer"],
                params["user"],
                (split_lines(said) or ["no words"])[-1],
                " ".join(argv),
            )
        )
