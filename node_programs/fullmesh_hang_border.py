# Copyright (c) the Fullmesh contributors
# SPDX-License-Identifier: MIT
"""Read processes of any account, so that none of them ends, delays or falsifies the answer about the others.

Each process itself reports its rank and job. So each is read by its own function, with limits of bytes and time, in
threads of its account. The kernel determines the account.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import struct
import threading
from collections import deque
from typing import TYPE_CHECKING, Generic, TypeVar

import fullmesh_watch_look as watch_look
from fullmesh_foreign_text import parse_decimal

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from typing import Any

    from fullmesh.observed.hang import Rank, SkippedProcesses

    Reader = Callable[[], Any]

T = TypeVar("T")
MOST_RANKS = 1 << 17  # of a job
MOST_ENVIRONMENT = 1 << 20  # bytes
MOST_OF_ACCOUNT = 512  # ranks of an account on a node
MOST_TOLD = 4  # processes of an account that are left out and named one by one
MOST_ACCOUNTS = 16  # the number of listed ones
MOST_ANSWERED = 128 << 20  # bytes that the processes of an account answer together
MOST_OF_NODE = 16 << 20  # bytes of a node's answer, with the same share for each account
LONGEST_WHY, LONGEST_NAME = 300, 200  # characters of a reason, and of a job's name
AT_ONCE, LEAST_AT_ONCE, MOST_THREADS = 32, 4, 512  # readers of an account, and of all
EVERY_UID = (1 << 32) - 1
OVERFLOW = "/proc/sys/kernel/overflowuid"
# linux/nsfs.h
NS_GET_PARENT, NS_GET_OWNER_UID = 0xB702, 0xB704
MOST_NESTED = 32  # user namespaces (user_namespaces(7))


class ForeignProcessError(ValueError):
    """A process reports values about itself that cannot be used."""


# --- accounts ---------------------------------------------------------------------------------------


def read_overflow_uids(pid: int | str) -> set[int]:
    """Return the number that replaces every account without a mapping in a process's user namespace.

    Empty if the namespace maps all accounts (user_namespaces(7), /proc/sys/kernel/overflowuid).
    """
    rows = [
        line.split() for line in watch_look.read_proc_bytes(f"/proc/{pid}/uid_map").splitlines()
    ]
    if [row[2:] for row in rows] == [[str(EVERY_UID).encode()]]:
        return set()
    found = parse_decimal(watch_look.read_proc_bytes(OVERFLOW).strip().decode("ascii", "replace"))
    return {65534 if found is None else found}


def is_uid_mapped(pid: int, uid: int) -> bool:
    """Return whether the user namespace of a process maps an account (user_namespaces(7)).

    A process in a rootless container sees all accounts without a mapping, including the host's root, as one.
    """
    rows = watch_look.read_proc_bytes(f"/proc/{pid}/uid_map").splitlines()
    spans = [tuple(map(int, row.split())) for row in rows]
    return not spans or any(outside <= uid < outside + count for _, outside, count in spans)


def find_account_uid(pid: int) -> int:
    """Return the account that a process belongs to, -1 if it has ended.

    For a process in its own user namespace, that is the account that created the namespace, because this account
    chooses the numbers in it.
    """
    for line in watch_look.read_proc_bytes(f"/proc/{pid}/status").splitlines():
        if line.startswith(b"Uid:"):
            return find_namespace_owner(pid, int(line.split()[1]))
    return -1


def read_effective_uid(pid: int) -> int:
    """Return a process's effective account, which differs in a container, or -1 if it has ended."""
    try:
        return os.stat(f"/proc/{pid}").st_uid
    except OSError:
        return -1


def find_namespace_owner(pid: int, uid: int) -> int:
    """Return the owner of the outermost user namespace between this process and another one, else *uid*."""
    try:
        own = os.stat("/proc/self/ns/user").st_ino
        space = os.open(f"/proc/{pid}/ns/user", os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return uid
    try:
        for _ in range(MOST_NESTED):
            if os.fstat(space).st_ino == own:
                break
            raw = fcntl.ioctl(space, NS_GET_OWNER_UID, bytes(4))
            maker = int(struct.unpack("=I", raw)[0])
            uid = maker or uid  # root makes namespaces for others
            outer = fcntl.ioctl(space, NS_GET_PARENT)
            os.close(space)
            space = outer
    except OSError:
        pass  # it is not below this process's own
    finally:
        os.close(space)
    return uid


def read_account_names() -> dict[int, str]:
    """Return the names of this node's local accounts.

    A name service is not used, since it may be the cause of the hang.
    """
    found: dict[int, str] = {}
    for line in watch_look.read_proc_bytes("/etc/passwd").decode("utf-8", "replace").splitlines():
        words = line.split(":")
        uid = parse_decimal(words[2], EVERY_UID) if len(words) > 2 else None  # noqa: PLR2004 (passwd(5))
        if uid is not None:
            found.setdefault(uid, words[0])
    return found


class AccountNames:
    """The names of accounts."""

    def __init__(self) -> None:
        """Read the names once."""
        self._names = read_account_names()

    def name(self, uid: int) -> str:
        """Return an account's name. Without a local name, the number is the same on all nodes."""
        return self._names.get(uid, f"uid {uid}")

    def sort(self, pids: Iterable[int]) -> dict[str, list[int]]:
        """Sort processes by account."""
        found: dict[str, list[int]] = {}
        for pid in pids:
            uid = find_account_uid(pid)
            if uid >= 0:
                found.setdefault(self.name(uid), []).append(pid)
        return found


# --- one after the other, each account for itself ---------------------------------------------------


class AnswerBudget:
    """The bytes that all processes of one account may answer together."""

    def __init__(self, left: int = MOST_ANSWERED) -> None:
        """Start with the full budget."""
        self._left = left
        self._lock = threading.Lock()

    def spend(self, count: int) -> None:
        """Use some of the budget.

        Raises:
            ForeignProcessError: it is used up.
        """
        with self._lock:
            self._left -= count
            if self._left < 0:
                raise ForeignProcessError(
                    f"the answers of its account's processes exceed {MOST_ANSWERED >> 20} MiB"
                )


def describe_read_error(error: Exception) -> str:
    """Describe why a process could not be read."""
    known = isinstance(error, (OSError, ForeignProcessError))
    text = str(error) if known and str(error) else f"{type(error).__name__}: {error}"
    return text[:LONGEST_WHY]


class AccountReaders(Generic[T]):
    """Readers of processes. Each account has threads of its own."""

    def __init__(self, work: Mapping[str, Sequence[tuple[int, Callable[[], T]]]]) -> None:
        """Prepare the readers. `run` starts them."""
        self._queues = [deque(readers) for readers in work.values() if readers]
        self._left = sum(map(len, self._queues))
        self._change = threading.Condition()
        self._over = False
        self.found: dict[int, T] = {}
        self.failed: dict[int, str] = {}

    def _serve(self, queue: deque[tuple[int, Callable[[], T]]]) -> None:
        while True:
            with self._change:
                if self._over or not queue:
                    return
                pid, reader = queue.popleft()
            result: list[T] = []
            why = ""
            try:
                result.append(reader())
            except Exception as error:  # a foreign process can cause any error
                why = describe_read_error(error)
            with self._change:
                if self._over:
                    return
                self.found.update((pid, one) for one in result)
                if not result:
                    self.failed[pid] = why
                self._left -= 1
                self._change.notify_all()

    def run(self, seconds: float) -> None:
        """Read until all are done or time is over. A hung reader is abandoned."""
        pids = [pid for queue in self._queues for pid, _ in queue]
        most = max(LEAST_AT_ONCE, MOST_THREADS // max(1, len(self._queues)))
        for queue in list(self._queues):
            with contextlib.suppress(RuntimeError):  # no thread left: those that run do it
                for _ in range(min(len(queue), AT_ONCE, most)):
                    threading.Thread(target=self._serve, args=(queue,), daemon=True).start()
        with self._change:
            self._change.wait_for(lambda: not self._left, seconds)
            self._over = True
        for pid in pids:
            if pid not in self.found:
                self.failed.setdefault(pid, f"it was not read within {seconds:g} s")


def read_by_account(
    work: Mapping[str, Sequence[tuple[int, Callable[[], T]]]], seconds: float
) -> tuple[dict[int, T], dict[int, str]]:
    """Read processes of several accounts at the same time, so that no account delays another.

    Args:
        work: account -> its processes and their readers.
        seconds: the deadline for all accounts together.

    Returns:
        The results, and the errors of the other processes, both by process.
    """
    turn = AccountReaders(work)
    turn.run(seconds)
    return turn.found, turn.failed


# --- data that does not fit -------------------------------------------------------------------------


def list_left_out(why: Mapping[str, Sequence[tuple[int, str]]]) -> list[SkippedProcesses]:
    """Return the processes that are left out: some of each account by name, the others counted.

    Args:
        why: account -> process and reason.
    """
    found: list[SkippedProcesses] = []
    for account, ones in sorted(why.items())[:MOST_ACCOUNTS]:
        found += [
            {"account": account, "pid": pid, "count": 1, "why": text[:LONGEST_WHY]}
            for pid, text in ones[:MOST_TOLD]
        ]
        rest = len(ones) - MOST_TOLD
        if rest > 0:
            text = "there are too many of them to list each one"
            found.append({"account": account, "pid": 0, "count": rest, "why": text})
    rest = sum(len(ones) for _, ones in sorted(why.items())[MOST_ACCOUNTS:])
    if rest:
        text = "there are more accounts than this list shows"
        found.append({"account": "other accounts", "pid": 0, "count": rest, "why": text})
    return found


def limit_to_share(ranks: Iterable[Rank], share: int) -> None:
    """Empty the records of an account's ranks after its share of the node's answer is used up."""
    for one in ranks:
        share -= len(json.dumps(one))
        if share < 0:
            one.update({"groups": [], "entries": [], "threads": [], "raised": None})
            one.pop("arrivals", None)
            text = "the records of its account are larger than its share of the answer"
            one["missing"] = [{"what": "recorder", "why": text}]
