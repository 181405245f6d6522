# Copyright (c) the Fullmesh contributors
# SPDX-License-Identifier: MIT
"""Read the system call of a thread, its arguments, and the open files of all processes from /proc.

Nothing is opened on the file system that a thread uses: that file system may be the reason of the hang. A process can
end between two reads, so every reader returns an empty value then.
"""

from __future__ import annotations

import os
import re
import struct
import threading
import time
from typing import TYPE_CHECKING, NamedTuple

import fullmesh_watch_look as watch_look
from fullmesh_foreign_text import parse_decimal

if TYPE_CHECKING:
    from collections.abc import Iterator

# Name, number on x86_64, number on aarch64 ("-" if it has none): asm/unistd_64.h, asm-generic/unistd.h. Unknown calls
# are reported by number.
TABLE = """
read 0 63|write 1 64|open 2 -|close 3 57|stat 4 -|fstat 5 80|lstat 6 -|poll 7 -|ioctl 16 29|pread64 17 67
pwrite64 18 68|readv 19 65|writev 20 66|select 23 -|msync 26 227|pause 34 -|nanosleep 35 101|sendfile 40 71
connect 42 203|accept 43 202|sendto 44 206|recvfrom 45 207|sendmsg 46 211|recvmsg 47 212|wait4 61 260|semop 65 193
msgsnd 69 189|msgrcv 70 188|fcntl 72 25|flock 73 32|fsync 74 82|fdatasync 75 83|ftruncate 77 46|rename 82 -
mkdir 83 -|unlink 87 -|rt_sigtimedwait 128 137|rt_sigsuspend 130 133|statfs 137 43|sync 162 81|futex 202 98
io_getevents 208 4|getdents64 217 61|restart_syscall 219 128|semtimedop 220 192|clock_nanosleep 230 115|epoll_wait 232 -
mq_timedsend 242 182|mq_timedreceive 243 183|waitid 247 95|openat 257 56|mkdirat 258 34|newfstatat 262 79
unlinkat 263 35|pselect6 270 72|ppoll 271 73|splice 275 76|epoll_pwait 281 22|fallocate 285 47|accept4 288 242
preadv 295 69|pwritev 296 70|recvmmsg 299 243|syncfs 306 267|renameat2 316 276|statx 332 291|io_pgetevents 333 292
io_uring_enter 426 426|openat2 437 437|epoll_pwait2 441 441|futex_waitv 449 449
"""
COLUMN = {"x86_64": 1, "aarch64": 2}
WORDS = 7  # of /proc/PID/syscall, if the process is in a call: its number and 6 arguments
MOST_MEMORY = 1 << 16  # bytes of another process
LONGEST = 200  # characters of a path or command
MOST_LINKS = 200_000  # open files of all processes
SCAN_SECONDS = 1.0
SECRET = re.compile(r"(?i)(pass(?:word|wd)?|secret|token|key|credential)")
CALL_STATES = {
    "R": "running",
    "D": "in uninterruptible sleep",
    "T": "stopped",
    "t": "stopped by a debugger",
    "Z": "ended",
    "X": "ended",
}
OWN_MOUNT = re.compile(rb"^mnt_id:\s*(\d+)", re.M)
OWN_FLAGS = re.compile(rb"^flags:\s*(\d+)", re.M)


def list_call_names(machine: str) -> dict[int, str]:
    """Return the names of system calls by number for ``x86_64`` or ``aarch64``."""
    column = COLUMN.get(machine)
    rows = [row.split() for line in TABLE.split("\n") for row in line.split("|") if row]
    return {int(row[column]): row[0] for row in rows if row[column] != "-"} if column else {}


CALLS = list_call_names(os.uname()[4])


class ThreadCall(NamedTuple):
    """The system call that a process's main thread is in. ``name`` is "" outside of one, ``args`` are its six."""

    pid: int
    state: str
    wchan: str
    name: str
    args: tuple[int, ...]


def read_process_state(pid: int) -> str:
    """Return the state letter of /proc/PID/stat, or "" if the process has ended."""
    rest = watch_look.read_proc_bytes(f"/proc/{pid}/stat").rpartition(b")")[2].split()
    return rest[0].decode("ascii", "replace") if rest else ""


def read_thread_call(pid: int) -> ThreadCall:
    """Return the kernel's state of the main thread (proc_pid_syscall(5), proc_pid_wchan(5))."""
    wchan = watch_look.read_proc_bytes(f"/proc/{pid}/wchan").decode("utf-8", "replace").strip()
    words = watch_look.read_proc_bytes(f"/proc/{pid}/syscall").decode("ascii", "replace").split()
    number = parse_decimal(words[0]) if len(words) >= WORDS else None
    state = read_process_state(pid)
    if number is None:
        return ThreadCall(pid, state, wchan, "", (0,) * 6)
    args = tuple(int(word, 16) for word in words[1:WORDS])
    return ThreadCall(pid, state, wchan, CALLS.get(number, str(number)), args)


def read_cpu_seconds(pid: int) -> tuple[float, float]:
    """Return the CPU seconds of a process's main thread and of all its threads, -1 if it has ended (proc(5))."""
    found = []
    for path in (f"/proc/{pid}/task/{pid}/stat", f"/proc/{pid}/stat"):
        words = watch_look.read_proc_bytes(path).rpartition(b")")[2].split()
        times = words[11:13]  # utime and stime, counted behind the name
        ticks = sum(int(word) for word in times) if len(times) > 1 else -1
        found.append(ticks / os.sysconf("SC_CLK_TCK") if ticks >= 0 else -1.0)
    return found[0], found[1]


def read_queued_seconds(pid: int) -> float:
    """Return how long a process's main thread was ready and got no CPU, -1 if unknown (sched-stats in the kernel)."""
    words = watch_look.read_proc_bytes(f"/proc/{pid}/task/{pid}/schedstat").split()
    return int(words[1]) / 1e9 if len(words) > 1 else -1.0


def read_memory(pid: int, address: int, size: int) -> bytes:
    """Return some bytes of a process's memory, or b"" if this account may not read them."""
    if not address or not 0 < size <= MOST_MEMORY:
        return b""
    try:
        with open(f"/proc/{pid}/mem", "rb", buffering=0) as memory:
            memory.seek(address)
            return memory.read(size)
    except (OSError, OverflowError, ValueError):
        return b""


def read_memory_text(pid: int, address: int) -> str:
    """Return a path in a process's memory, or ""."""
    raw = read_memory(pid, address, 4096 - address % 4096)  # the next page may not exist
    if raw and b"\0" not in raw:
        raw += read_memory(pid, address + len(raw), 4096)
    return shorten_text(raw.partition(b"\0")[0].decode("utf-8", "replace"))


def read_time_limit(pid: int, address: int) -> float:
    """Return the seconds of a ``struct timespec`` in a process's memory, -1 for none."""
    raw = read_memory(pid, address, 16)
    if len(raw) < 16:  # noqa: PLR2004 (two words)
        return -1.0
    seconds, nanoseconds = struct.unpack("=qq", raw)
    return float(seconds + nanoseconds / 1e9)


def shorten_text(text: str) -> str:
    """Return a foreign text on one line, without control characters, cut to a limit."""
    shown = "".join(one if one.isprintable() else "?" for one in text)
    return shown if len(shown) <= LONGEST else shown[: LONGEST - 3] + "..."


# --- open files ---------------------------------------------------------------------------------------


def as_descriptor(argument: int) -> int:
    """Return a descriptor from a call's argument: its lower 32 bits, with a sign."""
    low = argument & 0xFFFFFFFF
    return low - (1 << 32) if low >> 31 else low


def read_link(pid: int, number: int) -> str:
    """Return the target of a descriptor, such as ``pipe:[7]``, or ""."""
    try:
        return os.readlink(f"/proc/{pid}/fd/{number}")
    except OSError:
        return ""


def read_descriptor(pid: int, number: int) -> bytes:
    """Return /proc/PID/fdinfo of a descriptor, or b""."""
    return watch_look.read_proc_bytes(f"/proc/{pid}/fdinfo/{number}", MOST_MEMORY)


def can_access(pid: int, number: int, *, write: bool) -> bool:
    """Return whether a descriptor is open for reading, or for writing."""
    found = OWN_FLAGS.search(read_descriptor(pid, number))
    return found is not None and (int(found.group(1), 8) & 3) in ((1, 2) if write else (0, 2))


def find_mount_type(pid: int, number: int) -> str:
    """Return the type of the file system of an open file, such as ``nfs4``, without using that file system."""
    own = OWN_MOUNT.search(read_descriptor(pid, number))
    if own is None:
        return ""
    for line in watch_look.read_proc_bytes(f"/proc/{pid}/mountinfo", 1 << 22).splitlines():
        words = line.split(b" ")
        if words[0] == own.group(1) and b"-" in words[:-1]:
            return words[words.index(b"-") + 1].decode("ascii", "replace")
    return ""


class OpenFiles:
    """The open files of all processes that this account may inspect, read once when they are first needed."""

    def __init__(self) -> None:
        """Read nothing yet."""
        self._lock = threading.Lock()
        self._by_link: dict[str, list[tuple[int, int]]] | None = None

    def find_holders(self, link: str) -> list[tuple[int, int]]:
        """Return process and descriptor of everything that has the same file open."""
        with self._lock:
            if self._by_link is None:
                self._by_link = {}
                for number, (pid, descriptor, target) in enumerate(list_open_files()):
                    self._by_link.setdefault(target, []).append((pid, descriptor))
                    if number >= MOST_LINKS:
                        break
            return list(self._by_link.get(link, ()))


def list_open_files() -> Iterator[tuple[int, int, str]]:
    """Yield process, descriptor and target of open files, for a limited time."""
    end = time.monotonic() + SCAN_SECONDS
    for name in os.listdir("/proc"):
        if not name.isdecimal():
            continue
        if time.monotonic() > end:
            return
        try:
            numbers = os.listdir(f"/proc/{name}/fd")
        except OSError:
            continue  # it has ended, or is another account's
        for number in numbers:
            target = read_link(int(name), int(number))
            if target:
                yield int(name), int(number), target


# --- processes ----------------------------------------------------------------------------------------


def describe_command(pid: int) -> str:
    """Return the start of a process's command line without its folder and secrets, or its name in the kernel.

    The command line is in the process's memory, which may be locked while it is in uninterruptible sleep.
    """
    words = [] if read_process_state(pid) in ("D", "") else watch_look.read_argv(pid)
    if not words or not words[0]:
        name = watch_look.read_proc_bytes(f"/proc/{pid}/comm").decode("utf-8", "replace").strip()
        return shorten_text(name)
    shown, hidden = [os.path.basename(words[0]) or words[0]], False
    for word in words[1:]:
        name, equals, _ = word.partition("=")
        named = bool(SECRET.search(name))
        shown.append("***" if hidden else f"{name}=***" if named and equals else word)
        hidden = named and not equals and word.startswith("-")
    text = " ".join(shown)
    return shorten_text(text if len(text) <= 80 else text[:77] + "...")  # noqa: PLR2004 (a line's room)


def list_children(pid: int) -> list[int]:
    """Return the children of a process, including those that ended."""
    found = []
    for name in os.listdir("/proc"):
        if name.isdecimal():
            rest = watch_look.read_proc_bytes(f"/proc/{name}/stat").rpartition(b")")[2].split()
            if len(rest) > 1 and rest[1] == str(pid).encode():
                found.append(int(name))
    return sorted(found)
