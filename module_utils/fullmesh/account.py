"""Run work with the rights of an account and no others.

Users can swap files in their own folders at any moment: for a link, a fifo, another directory. With root's rights, each
of these could lead to root's files, and checks by path cannot close the race. If the process runs as that account, the
kernel checks its rights. This is also the only way to access a home on NFS with root_squash.
"""

from __future__ import annotations

import errno
import json
import os
import pwd
import stat
from typing import TYPE_CHECKING, Any, TypedDict

from .foreign_text import parse_foreign_json

if TYPE_CHECKING:
    from typing import Callable

LARGEST = 16 << 20  # bytes of an answer
LINKS_MOST = 40  # path_resolution(7)
FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
ACCESS_LIST = "system.posix_acl_access"  # acl(5)


class AccountError(Exception):
    """The work refused to run. The text has the reason."""


def drop_privileges(owner: pwd.struct_passwd) -> None:
    """Give up root permanently. Groups come first, since they cannot be changed afterwards."""
    if os.geteuid() == 0:
        os.setgroups(os.getgrouplist(owner.pw_name, owner.pw_gid))
        os.setresgid(owner.pw_gid, owner.pw_gid, owner.pw_gid)
        os.setresuid(owner.pw_uid, owner.pw_uid, owner.pw_uid)
    if os.getresuid() != (owner.pw_uid,) * 3:
        raise PermissionError(f"cannot act as {owner.pw_name}")


class WorkOutcome(TypedDict, total=False):
    """The outcome of the work: its value, its refusal, or its failure."""

    value: Any
    refused: str
    failed: str


def capture_outcome(owner: pwd.struct_passwd, work: Callable[[], Any]) -> WorkOutcome:
    """Run the work as the account and return its outcome, including failures."""
    try:
        os.chdir("/")
        os.umask(0o077)
        drop_privileges(owner)
        return {"value": work()}
    except AccountError as error:
        return {"refused": str(error)}
    except Exception as error:  # the parent raises it again: this process must end in any case
        return {"failed": str(error) or type(error).__name__}


def run_as_account(owner: pwd.struct_passwd, work: Callable[[], Any]) -> Any:
    """Run *work* in a child process as the account, and return its result (any JSON value).

    Raises:
        AccountError: the work refused.
        OSError: it failed, or the account killed it.
    """
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        try:
            os.close(reading)
            with os.fdopen(writing, "w") as stream:
                json.dump(capture_outcome(owner, work), stream)
        finally:
            os._exit(
                0
            )  # never back into Ansible's wrapper, which removes files that its first copy still needs
    os.close(writing)
    with os.fdopen(reading, "rb") as source:
        raw = source.read(LARGEST + 1)
    os.waitpid(child, 0)
    try:
        answer = parse_foreign_json(raw, most_bytes=LARGEST)
    except ValueError:
        answer = None
    answer = answer if isinstance(answer, dict) else {}
    if "refused" in answer:
        raise AccountError(answer["refused"])
    if "value" not in answer:
        why = answer.get("failed", "it ended without an answer")
        raise OSError(f"as {owner.pw_name}: {why}")
    return answer["value"]


# --- folders that accounts own ------------------------------------------------------------------


class ForeignFolderError(PermissionError):
    """A folder that neither root nor its owner can use safely. The text has no code."""


def is_root_only_writable(handle: int) -> bool:
    """Return whether only root can change names in an open folder. A group is a risk unless it is root's."""
    info = os.fstat(handle)
    if info.st_uid != 0 or info.st_mode & stat.S_IWOTH:
        return False
    if not info.st_mode & stat.S_IWGRP:
        return True
    if info.st_gid != 0:
        return False
    try:
        os.getxattr(handle, ACCESS_LIST)
    except OSError:
        return True
    return False  # with an access list, the bits of the group are the most that any account has


def find_foreign_folder(path: str) -> str:
    """Return *path* or the folder above it that an account other than root can change, or "".

    A sticky folder above (/tmp) is safe, since other users cannot rename root's entries there.
    """
    place = path = os.path.realpath(path)
    while True:
        if os.path.isdir(place):
            handle = os.open(place, FOLDER)
            try:
                info = os.fstat(handle)
                sticky = info.st_uid == 0 and info.st_mode & stat.S_ISVTX and place != path
                if not sticky and not is_root_only_writable(handle):
                    return place
            finally:
                os.close(handle)
        if place == "/":
            return ""
        place = os.path.dirname(place)


def open_subfolder(handle: int, name: str, path: str) -> tuple[int, str]:
    """Open the subfolder *name* of the open folder *handle*.

    Return (-1, target) if it is a link.

    Raises:
        ForeignFolderError: it is a link that an account other than root can have made.
    """
    if not stat.S_ISLNK(os.lstat(name, dir_fd=handle).st_mode):
        return os.open(name, FOLDER, dir_fd=handle), ""
    if not is_root_only_writable(handle):
        raise ForeignFolderError(
            f"{path} leads through the link {name!r}, whose folder can be changed by others than root. "
            "Fix: use the folder's real path"
        )
    return -1, os.readlink(name, dir_fd=handle)


def open_folder(path: str) -> int:
    """Open a folder step by step, so that no account can make root follow its link.

    Raises:
        OSError: there is no such folder.
        ForeignFolderError: as for `open_subfolder`.
    """
    handle, rest, links = os.open("/", FOLDER), path.split("/"), 0
    try:
        while rest:
            name = rest.pop(0)
            if name in ("", "."):
                continue
            below, target = open_subfolder(handle, name, path)
            if below < 0:
                links += 1
                if links > LINKS_MOST:
                    raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), path)
                rest = target.split("/") + rest
                below = os.open("/", FOLDER) if target.startswith("/") else os.dup(handle)
            os.close(handle)
            handle = below
    except OSError as error:
        os.close(handle)
        if error.filename:
            error.filename = path
        raise
    return handle


def find_folder_account(handle: int, path: str) -> pwd.struct_passwd | None:
    """Return the account that owns an open folder, None for root.

    Raises:
        ForeignFolderError: it is root's, and others can change it.
    """
    info = os.fstat(handle)
    if info.st_uid == 0:
        if is_root_only_writable(handle):
            return None
        raise ForeignFolderError(
            f"{path} belongs to root, and other accounts can change it (mode {stat.S_IMODE(info.st_mode):04o}, "
            f"group {info.st_gid}). Fix: chmod go-w {path}, or chown it to the account that uses it"
        )
    try:
        return pwd.getpwuid(info.st_uid)
    except KeyError:  # of a service with DynamicUser=, systemd.exec(5)
        name = f"uid {info.st_uid}"
        return pwd.struct_passwd((name, "x", info.st_uid, info.st_gid, "", "/", ""))


def act_in_folder(folder: str, work: Callable[[str], Any]) -> Any:
    """Run *work* in a folder: as root if only root can change the folder, otherwise as its owner.

    *work* gets a path that stays valid if the folder is moved. Without root's rights, it gets *folder* itself. It must
    return a JSON value.

    Raises:
        OSError: there is no such folder, or the work failed.
        ForeignFolderError: as for `open_folder` and `find_folder_account`.
    """
    if os.geteuid() != 0:
        return work(folder)
    folder = os.path.abspath(folder)
    handle = open_folder(folder)
    try:
        owner = find_folder_account(handle, folder)
        here = f"/proc/self/fd/{handle}"
        if owner:
            return run_as_account(owner, lambda: act_in_open_folder(work, here, folder))
        return act_in_open_folder(work, here, folder)
    finally:
        os.close(handle)


def act_in_open_folder(work: Callable[[str], Any], here: str, folder: str) -> Any:
    """Run *work* in *here*. Its errors name *folder*."""
    try:
        return work(here)
    except OSError as error:
        for name in ("filename", "filename2"):
            named = getattr(error, name)
            if isinstance(named, str) and named.startswith(here):
                setattr(error, name, folder + named[len(here) :])
        raise
