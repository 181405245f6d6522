"""Choose the account of a verification's ranks: an unused number, for one run, without an entry in passwd.

Ranks run the listeners of torch's store, Gloo and NCCL, which require no password and parse the data of any client. So
the ranks must own nothing on the node. systemd's DynamicUser= would choose numbers in the same way, but it needs mount
namespaces, which containers often lack, and hides parts of /dev and /tmp that GPUs need.
"""

from __future__ import annotations

import contextlib
import grp
import os
import pwd
import random
import resource
import signal
import stat

from ..account import run_as_account

# systemd keeps these numbers for accounts without an entry (UIDS-GIDS.md, "Dynamic Service UIDs"), its own among them.
FIRST, LAST = 61184, 65519
TAKEN = "/run/systemd/dynamic-uid"
NAME = "fullmesh-verify"
SHARED = "/dev/shm"  # noqa: S108 (searched for files that the account left)


def find_used_uids() -> set[int]:
    """Return the user ids of running processes."""
    found = set()
    for name in os.listdir("/proc"):
        if name.isdecimal():
            with contextlib.suppress(OSError):  # it has ended
                found.add(os.stat(os.path.join("/proc", name)).st_uid)
    return found


def is_taken_id(number: int) -> bool:
    """Return whether an account or group has this number, in any directory service."""
    for ask in (pwd.getpwuid, grp.getgrgid):
        with contextlib.suppress(KeyError):
            ask(number)
            return True
    return os.path.exists(os.path.join(TAKEN, str(number)))


def pick() -> pwd.struct_passwd | None:
    """Choose an account for one run. None if this process is not root and keeps its account."""
    if os.geteuid() != 0:
        return None
    busy = find_used_uids()
    numbers = [number for number in range(FIRST, LAST + 1) if number not in busy]
    random.SystemRandom().shuffle(numbers)
    for number in numbers:
        if not is_taken_id(number):
            return pwd.struct_passwd((NAME, "x", number, number, "", "/", "/"))
    raise ValueError(f"all numbers from {FIRST} to {LAST} are in use")


class RankRefusedError(PermissionError):
    """The ranks cannot start on this node.

    Attributes:
        code: of the finding.
        fix: the command that helps.
    """

    def __init__(self, code: str, text: str, fix: str) -> None:
        super().__init__(text)
        self.code, self.fix = code, fix

    def __str__(self) -> str:
        return str(self.args[0])


def refuse_unusable_account(account: pwd.struct_passwd) -> None:
    """Check that root can become this account.

    Raises:
        RankRefusedError: it cannot, as in a container that has too few numbers.
    """
    try:
        run_as_account(account, os.getpid)
    except OSError as exc:
        raise RankRefusedError(
            "VC-305",
            f"root cannot be given up here: {exc}",
            f"map the account numbers {FIRST} to {LAST} into this container",
        ) from exc


def find_closed_path(path: str, run: bool = False) -> str:
    """Return the first part of a path that this process may not use, or "".

    Args:
        path: of a file. Targets of links are checked as well.
        run: whether the file has to be executable.
    """
    for whole in dict.fromkeys((path, os.path.realpath(path))):
        parts = whole.split("/")
        for count in range(2, len(parts)):
            folder = "/".join(parts[:count])
            if not os.access(folder, os.X_OK):
                return folder
        if not os.access(whole, os.R_OK | os.X_OK if run else os.R_OK):
            return whole
    return ""


def describe_rank_account(account: pwd.struct_passwd) -> str:
    """Describe the account of the ranks."""
    if account.pw_name == NAME:
        return "their account, which has no rights,"
    return f"{account.pw_name}, the account of jobs,"


def refuse_unreadable(account: pwd.struct_passwd, path: str, run: bool = False) -> None:
    """Check that the account may read or run a file.

    A missing file passes.

    Raises:
        RankRefusedError: it may not. The text has the closed folder or file.
    """
    if not path or not os.path.exists(path):
        return
    closed = run_as_account(account, lambda: find_closed_path(path, run))
    if closed:
        held = os.stat(closed)
        rights = "rx" if run or os.path.isdir(closed) else "r"
        raise RankRefusedError(
            "VC-305" if run else "VC-310",
            f"{describe_rank_account(account)} cannot {'run' if run else 'read'} {path}: {closed} has mode "
            f"{stat.S_IMODE(held.st_mode):04o}, owner {held.st_uid}",
            f"chmod o+{rights} {closed}",
        )


def raise_limits() -> None:
    """Raise the limits that root is not bound by: locked memory (RDMA, pinned buffers), processes, open files."""
    for kind in (resource.RLIMIT_MEMLOCK, resource.RLIMIT_NPROC):
        with contextlib.suppress(OSError, ValueError):  # a container may not raise the hard limit
            resource.setrlimit(kind, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


def clean_up_account(account: pwd.struct_passwd) -> None:
    """Kill all processes of this account, and remove its files in shared memory."""
    if not FIRST <= account.pw_uid <= LAST:
        raise ValueError(f"{account.pw_uid} belongs to another account")
    with contextlib.suppress(OSError):
        # -1 is everything that the caller may signal (kill(2)): as this account, its own processes and no others
        run_as_account(account, lambda: os.kill(-1, signal.SIGKILL))
    with contextlib.suppress(OSError):
        for entry in os.scandir(SHARED):
            if entry.stat(follow_symlinks=False).st_uid == account.pw_uid:
                os.unlink(entry.path)
