# Copyright (c) the Fullmesh contributors
# SPDX-License-Identifier: MIT
"""Find the object that a sleeping thread waits for in the kernel, and the processes that could end the wait.

The object is a file lock, a pipe or FIFO, a socket, a child, a device, a queue, a semaphore. The processes are the
holder of the lock, the other end of the pipe, the peer of the socket, or the child.
"""

from __future__ import annotations

import ctypes
import os
import re
import socket
import struct
from typing import TYPE_CHECKING, NamedTuple

import fullmesh_hang_calls as hang_calls
import fullmesh_sockets as sockets
import fullmesh_watch_look as watch_look
from fullmesh_hang_calls import ThreadCall

if TYPE_CHECKING:
    from collections.abc import Callable

    from fullmesh.observed.hang import KernelWait, WaitParty

MOST_PARTIES, SHOWN, DEEPEST = 8, 3, 2
MOST_POLLED = 1024  # descriptors of a poll call
MOST_TABLE = 16 << 20  # bytes of a table in /proc/net
READS = ("read", "readv", "pread64", "preadv", "splice", "sendfile")
WRITES = ("write", "writev", "pwrite64", "pwritev")
RECEIVES, SENDS = ("recvfrom", "recvmsg", "recvmmsg"), ("sendto", "sendmsg")
ACCEPTS = ("accept", "accept4")
OPENS = {"open": 0, "openat": 1, "openat2": 1}  # the position of the path
SYNCS = ("fsync", "fdatasync", "msync", "fallocate", "ftruncate", "syncfs", "getdents64", "close")
ON_DESCRIPTORS = {*READS, *WRITES, *RECEIVES, *SENDS, *ACCEPTS, *SYNCS, "connect", "ioctl"}
POLLS = ("poll", "ppoll", "select", "pselect6", "epoll_wait", "epoll_pwait", "epoll_pwait2")
SIGNALS = ("pause", "rt_sigsuspend", "rt_sigtimedwait")
F_SETLKW, F_OFD_SETLKW = 7, 38  # linux/fcntl.h
P_PID, P_PIDFD = 1, 3  # linux/wait.h
LONGEST_SLEEP = 1e9  # seconds. More is a damaged value
POLLOUT, GETPID = 4, 11  # poll.h, linux/sem.h
FUTEX_PRIVATE, FUTEX_TID = 128, 0x3FFFFFFF  # linux/futex.h
NETWORK = re.compile(r"^(?:nfs|cifs|smb|ceph|lustre|gpfs|beegfs|fuse|9p|afs|gfs|ocfs)")
# Of the FIFO's open and of pipes and FIFOs (fs/pipe.c), also in kernels with other names for both
PARTNER = re.compile(r"^(?:wait_for_partner|fifo_open)")
PIPES = re.compile(r"^(?:anon_|fifo_)?pipe_(?:read|write|wait)")
# fs/locks.c: number, "->" for one that waits, kind, advisory, access, process, device:inode, start and end
LOCK = re.compile(
    rb"^(\d+):\s+(->\s+)?(\w+)\s+\S+\s+(\S+)\s+(-?\d+)\s+([0-9a-f]+:[0-9a-f]+:\d+)\s", re.M
)
HELD = re.compile(rb"^lock:\s+\d+:\s+\w+\s+\S+\s+\S+\s+-?\d+\s+(\S+)", re.M)
POLLED = re.compile(rb"^tfd:\s*(\d+)\s+events:\s*([0-9a-f]+)", re.M)
PIDFD = re.compile(rb"^Pid:\s*(\d+)", re.M)
DEVICE = re.compile(r"^/dev/(?!shm/|mqueue/)")
INTERNAL = re.compile(r"^anon_inode:\[?(?:event|timer|signal|inotify|eventpoll)")
# linux/unix_diag.h, linux/sock_diag.h
SOCK_DIAG, BY_FAMILY, REQUEST, SHOW_PEER, PEER = 4, 20, 1, 4, 2
HEADER, ATTRIBUTE, UNIX_SIZE = struct.Struct("=IHHII"), struct.Struct("=HH"), 16


class FoundWait(NamedTuple):
    """A wait: its kind, its object, the object in words, and the processes that could end it.

    ``role``: these processes' part in it, as in "process 7 holds it". ``missing``: the text if there are none.
    """

    kind: str
    target: str
    text: str
    pids: tuple[int, ...] = ()
    role: str = ""
    missing: str = ""


class WaitFinder:
    """Finds waits of the processes of one node. ``files`` is None if no other process may be read."""

    def __init__(self, files: hang_calls.OpenFiles | None) -> None:
        """Save the shared data."""
        self.files = files

    # --- the wait of a process --------------------------------------------------------------------

    def find_wait(self, pid: int, behind: tuple[int, ...] = ()) -> KernelWait | None:
        """Return the wait of a process's main thread, or None if it does not sleep in a known system call.

        *behind*: the processes that wait for this one.
        """
        call = hang_calls.read_thread_call(pid)
        if call.state not in ("S", "D") or not call.name:
            return None
        found = self.find_call_wait(call)
        if found is None:
            return None
        pids = list(dict.fromkeys(found.pids))
        parties = [self.describe_party(one, (*behind, pid)) for one in pids[:MOST_PARTIES]]
        text = found.text
        if parties:
            rest = f" and {len(pids) - SHOWN} more" if len(pids) > SHOWN else ""
            text += f", {found.role} " + ", ".join(map(format_party, parties[:SHOWN])) + rest
        elif found.missing and self.files is not None:
            text += f", {found.missing}"
        return {
            "kind": found.kind,
            "call": call.name,
            "target": hang_calls.shorten_text(found.target),
            "text": text[: 4 * hang_calls.LONGEST],
            "parties": parties,
        }

    def describe_party(self, pid: int, behind: tuple[int, ...]) -> WaitParty:
        """Describe a process that could end the wait, and the reason why it does not."""
        state = hang_calls.read_process_state(pid)
        doing = hang_calls.CALL_STATES.get(state, "")
        if pid in behind:
            doing = (
                "the waiting process itself" if pid == behind[-1] else "which waits for this one"
            )
        elif state == "S":
            call = hang_calls.read_thread_call(pid)
            deeper = self.find_wait(pid, behind) if len(behind) <= DEEPEST else None
            doing = f"in {call.name}" if call.name else "sleeping"
            if deeper and deeper["kind"] != "sleep":
                doing = f"waits for {deeper['text']}"
        command = hang_calls.describe_command(pid) if state else ""
        return {"pid": pid, "command": command, "state": state, "doing": doing or "ended"}

    def find_call_wait(self, call: ThreadCall) -> FoundWait | None:
        """Find the object of a system call."""
        name = call.name
        if name == "flock" or (name == "fcntl" and call.args[1] in (F_SETLKW, F_OFD_SETLKW)):
            return self.find_file_lock(call)
        if name in ON_DESCRIPTORS:
            first = hang_calls.as_descriptor(call.args[0])
            return self.find_descriptor_wait(call, first, write=name in (*WRITES, *SENDS))
        if name in POLLS:
            return find_sleep(call) if has_no_descriptors(call) else self.find_poll_wait(call)
        if name.startswith("mq_timed"):
            return self.find_queue_wait(call)
        return next((finder(call) for names, finder in OTHERS.items() if name in names), None)

    # --- locks --------------------------------------------------------------------------------------

    def find_file_lock(self, call: ThreadCall) -> FoundWait:
        """Find the holder of the file lock that a call waits for, in /proc/locks."""
        number = hang_calls.as_descriptor(call.args[0])
        target = hang_calls.read_link(call.pid, number)
        rows = LOCK.findall(watch_look.read_proc_bytes("/proc/locks", MOST_TABLE))
        own = [row for row in rows if row[1] and int(row[4]) == call.pid]
        own = own or [row for row in rows if row[1] and int(row[4]) < 0 and _is_same(row[5], call)]
        heads = [row for row in rows if not row[1] and own and row[0] == own[0][0]]
        pids = [int(row[4]) for row in heads if os.path.exists(f"/proc/{int(row[4])}")]
        if heads and not pids and self.files is not None:
            # The number is of the process that made the lock. Its children have it as well, and an OFD lock has none.
            for pid, descriptor in self.files.find_holders(target):
                if heads[0][5] in HELD.findall(hang_calls.read_descriptor(pid, descriptor)):
                    pids.append(pid)
        missing = "and no process of this node holds it"
        kind = hang_calls.find_mount_type(call.pid, number)
        if NETWORK.match(kind):
            missing += f": a process of another node holds it, or the server is silent ({kind})"
        text = f"a file lock on {target or 'a file'}"
        return FoundWait("lock", target, text, tuple(pids), "held by", missing)

    # --- descriptors --------------------------------------------------------------------------------

    def find_descriptor_wait(self, call: ThreadCall, number: int, *, write: bool) -> FoundWait:
        """Find the object behind a descriptor."""
        target = hang_calls.read_link(call.pid, number)
        if target.startswith("socket:["):
            return self.find_socket_wait(call, target, write=write)
        if target.startswith("pipe:[") or PIPES.match(call.wchan):
            return self.find_pipe_wait(call.pid, target, write=write)
        if DEVICE.match(target):
            return self.find_device_wait(call, target)
        if target.startswith(("anon_inode:", "pidfd:")):
            return find_anonymous_wait(call, number, target)
        kind = hang_calls.find_mount_type(call.pid, number)
        on = f" ({kind})" if kind else ""
        what = "the NFS file" if kind.startswith("nfs") else "the file"
        return FoundWait("file", target, f"{what} {target or number}{on} in {call.name}")

    def find_device_wait(self, call: ThreadCall, target: str) -> FoundWait:
        """Describe a device. A terminal has a reader or writer at its other end, which is not known."""
        how = f" ({call.name} {call.args[1]:#x})" if call.name == "ioctl" else f" ({call.name})"
        return FoundWait("device", target, f"the device {target}{how}")

    def find_pipe_wait(self, pid: int, target: str, *, write: bool) -> FoundWait:
        """Find the processes at the other end of a pipe or FIFO."""
        found = self.files.find_holders(target) if self.files is not None else []
        others = [
            one for one, number in found if hang_calls.can_access(one, number, write=not write)
        ]
        named = "a pipe" if target.startswith("pipe:[") else f"the FIFO {target}"
        text = f"space in {named}, which is full" if write else f"data from {named}"
        own = "and this process itself holds the only other end, which it never closed"
        pids = tuple(one for one in others if one != pid)
        missing = own if others else "and no process that can be inspected has its other end"
        role = "which is read by" if write else "which is written by"
        return FoundWait("pipe", target, text, pids, role, missing)

    def find_queue_wait(self, call: ThreadCall) -> FoundWait:
        """Find the other processes that have a POSIX message queue open (mq_overview(7))."""
        target = hang_calls.read_link(call.pid, hang_calls.as_descriptor(call.args[0]))
        found = self.files.find_holders(target) if self.files is not None else []
        sends = call.name == "mq_timedsend"
        text = f"space in the message queue {target}" if sends else f"a message in queue {target}"
        pids = tuple(one for one, _ in found if one != call.pid)
        return FoundWait(
            "queue", target, text, pids, "also open in", "which no other process has open"
        )

    # --- sockets ------------------------------------------------------------------------------------

    def find_socket_wait(self, call: ThreadCall, target: str, *, write: bool) -> FoundWait:
        """Find the peer of a socket, and its process if it is on this node."""
        inode = target[len("socket:[") : -1]
        for kind in ("tcp", "tcp6", "udp", "udp6"):
            table = watch_look.read_proc_bytes(f"/proc/{call.pid}/net/{kind}", MOST_TABLE)
            own = select_rows(table, lambda words: words[9] == inode.encode())
            if own:
                return self.describe_internet_wait(call, own[0], table, write=write)
        peer = find_unix_peer(int(inode)) if self.files and _is_same_network(call.pid) else 0
        pids = self.find_socket_holders(str(peer), call.pid) if peer else ()
        if call.name in ACCEPTS:
            return FoundWait("socket", target, "a client that connects to its UNIX socket")
        text = "space in a UNIX socket, which is full" if write else "data from a UNIX socket"
        if call.name == "connect":
            text = "a UNIX socket to accept its connection"
        role = "which is read by" if write else "which is written by"
        missing = "and no process that can be inspected has its other end"
        return FoundWait("socket", target, text, pids, role, missing if peer else "")

    def describe_internet_wait(
        self, call: ThreadCall, row: sockets.SocketRow, table: bytes, *, write: bool
    ) -> FoundWait:
        """Describe the wait at a TCP or UDP socket."""
        here = sockets.format_endpoint(row["address"], row["port"])
        peer = sockets.format_endpoint(row["peer"], row["peer_port"])
        if row["state"] == sockets.LISTEN:
            return FoundWait("socket", here, f"a client that connects to {here}")
        if not row["peer_port"]:
            return FoundWait("socket", here, f"data on {here}, from any sender")
        ends = {peer, here}
        other = [
            one
            for one in select_rows(table, lambda words: len(words) > 9)  # noqa: PLR2004 (proc(5))
            if one["inode"] != row["inode"]
            and sockets.format_endpoint(one["address"], one["port"]) == peer
            and {peer, sockets.format_endpoint(one["peer"], one["peer_port"])} == ends
        ]
        pids = self.find_socket_holders(other[0]["inode"], call.pid) if other else ()
        missing = ""
        if other and not pids:
            missing = "whose process on this node has not accepted the connection, or has ended"
        if row["state"] == sockets.SYN_SENT:
            return FoundWait("socket", peer, f"{peer} to answer its connection attempt")
        if row["state"] == sockets.CLOSE_WAIT and not write:
            missing = "which has closed its end"
        text = f"{peer} to read the data that was sent to it" if write else f"data from {peer}"
        return FoundWait("socket", peer, text, pids, "which here is", missing)

    def find_socket_holders(self, inode: str, pid: int) -> tuple[int, ...]:
        """Return the processes that have a socket."""
        found = self.files.find_holders(f"socket:[{inode}]") if self.files is not None else []
        return tuple(
            dict.fromkeys([one for one, _ in found if one != pid] or [p for p, _ in found])
        )

    # --- several at once ----------------------------------------------------------------------------

    def find_poll_wait(self, call: ThreadCall) -> FoundWait:
        """Find the objects of a call that waits for several descriptors."""
        polled = list_polled(call)
        outer = [
            one for one in polled if not INTERNAL.match(hang_calls.read_link(call.pid, one[0]))
        ]
        found = [
            self.find_descriptor_wait(call, number, write=write)
            for number, write in (outer or polled)[:MOST_PARTIES]
        ]
        kinds = {one.kind for one in found}
        if len(found) == 1:
            return found[0]
        pids = tuple(pid for one in found for pid in one.pids)
        texts = list(dict.fromkeys(one.text for one in found))
        rest = f" and {len(texts) - SHOWN} more" if len(texts) > SHOWN else ""
        text = " or ".join(texts[:SHOWN]) + rest if texts else f"an event ({call.name})"
        kind = kinds.pop() if len(kinds) == 1 else "poll"
        return FoundWait(kind, found[0].target if found else "", text, pids, "at the other end")


# --- helpers ------------------------------------------------------------------------------------------


def format_party(party: WaitParty) -> str:
    """Format a process: ``process 7 (prepare.py, stopped)``."""
    words = ", ".join(one for one in (party["command"], party["doing"]) if one)
    return f"process {party['pid']} ({words})"


def _is_same(place: bytes, call: ThreadCall) -> bool:
    """Return whether a row of /proc/locks refers to the file that a call uses, by inode."""
    said = hang_calls.read_descriptor(call.pid, hang_calls.as_descriptor(call.args[0]))
    found = re.search(rb"^ino:\s*(\d+)", said, re.M)
    return found is not None and place.rpartition(b":")[2] == found.group(1)


def _is_same_network(pid: int) -> bool:
    try:
        return os.readlink(f"/proc/{pid}/ns/net") == os.readlink("/proc/self/ns/net")
    except OSError:
        return False


def select_rows(table: bytes, wanted: Callable[[list[bytes]], bool]) -> list[sockets.SocketRow]:
    """Return some rows of a table in /proc/net, without damaged ones."""
    found = []
    for line in table.splitlines()[1:]:
        words = line.split()
        if len(words) > 9 and wanted(words):  # noqa: PLR2004 (the inode's column, proc(5))
            try:
                found += sockets.parse_socket_table("\n" + line.decode("ascii", "replace"))
            except (ValueError, IndexError, struct.error):
                continue
    return found


def find_unix_peer(inode: int) -> int:
    """Return the inode of a UNIX socket's peer from sock_diag(7), 0 if it is not known."""
    request = struct.pack(
        "=BBHIIIII", socket.AF_UNIX, 0, 0, 0xFFFFFFFF, inode, SHOW_PEER, *(2**32 - 1,) * 2
    )
    try:
        with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, SOCK_DIAG) as kernel:
            kernel.settimeout(1)
            kernel.send(HEADER.pack(HEADER.size + len(request), BY_FAMILY, REQUEST, 1, 0) + request)
            raw = kernel.recv(1 << 16)
    except OSError:
        return 0
    length, kind, *_ = HEADER.unpack_from(raw)
    at = HEADER.size + UNIX_SIZE
    while kind == BY_FAMILY and at + ATTRIBUTE.size <= length:
        size, name = ATTRIBUTE.unpack_from(raw, at)
        if name == PEER and size >= ATTRIBUTE.size + 4:
            return int(struct.unpack_from("=I", raw, at + ATTRIBUTE.size)[0])
        at += max(ATTRIBUTE.size, (size + 3) & ~3)
    return 0


def find_opened_file(call: ThreadCall) -> FoundWait:
    """Find the path of an open call. Only a FIFO makes it wait, or a file system that does not answer."""
    at = OPENS[call.name]
    path = hang_calls.read_memory_text(call.pid, call.args[at])
    if PARTNER.match(call.wchan):
        flags = call.args[at + 1]
        if call.name == "openat2":
            flags = int.from_bytes(hang_calls.read_memory(call.pid, flags, 8), "little")
        mode, other = ("writing", "reading") if flags & 3 else ("reading", "writing")
        text = f"another process to open the FIFO {path} for {other}, which it opens for {mode}"
        return FoundWait("fifo", path, text)
    return FoundWait("file", path, f"the open of {path or 'a file'}")


def find_child_wait(call: ThreadCall) -> FoundWait:
    """Find the children that a call waits for."""
    first, second = hang_calls.as_descriptor(call.args[0]), hang_calls.as_descriptor(call.args[1])
    pid = first if call.name == "wait4" else second if call.args[0] == P_PID else 0
    if call.name == "waitid" and call.args[0] == P_PIDFD:
        pid = find_pidfd_process(call.pid, second)
    pids = [pid] if pid > 0 else hang_calls.list_children(call.pid)
    # in a container the call has the number in there
    if pid > 0 and not os.path.exists(f"/proc/{pid}"):
        pids = hang_calls.list_children(call.pid)
    many = len(pids) > 1
    text = "one of its child processes" if many else "its child process"
    return FoundWait(
        "child", " ".join(map(str, pids[:SHOWN])), text, tuple(pids), "that is", "which is gone"
    )


def find_pidfd_process(pid: int, number: int) -> int:
    """Return the process of a descriptor of pidfd_open(2), 0 if it is none."""
    found = PIDFD.search(hang_calls.read_descriptor(pid, number))
    return int(found.group(1)) if found else 0


def find_anonymous_wait(call: ThreadCall, number: int, target: str) -> FoundWait:
    """Describe a descriptor without a file: a process, an event counter, io_uring."""
    pid = find_pidfd_process(call.pid, number)
    if pid:
        return FoundWait("child", str(pid), "the end of a process", (pid,), "that is")
    return FoundWait("event", target, f"{target.partition(':')[2].strip('[]')} ({call.name})")


def list_polled(call: ThreadCall) -> list[tuple[int, bool]]:
    """Return the descriptors of a poll, select or epoll call, and whether it waits until they can be written."""
    if call.name.startswith("epoll_"):
        said = hang_calls.read_descriptor(call.pid, hang_calls.as_descriptor(call.args[0]))
        return [(int(a), bool(int(b, 16) & POLLOUT)) for a, b in POLLED.findall(said)][:MOST_POLLED]
    if call.name.endswith("poll"):
        raw = hang_calls.read_memory(call.pid, call.args[0], 8 * min(call.args[1], MOST_POLLED))
        rows = struct.iter_unpack("=ihh", raw[: len(raw) // 8 * 8])
        return [(number, bool(events & POLLOUT)) for number, events, _ in rows if number >= 0]
    found = []
    for address, write in ((call.args[1], False), (call.args[2], True)):
        size = (min(call.args[0], MOST_POLLED) + 63) // 64 * 8
        bits = int.from_bytes(hang_calls.read_memory(call.pid, address, size), "little")
        found += [
            (number, write)
            for number in range(min(call.args[0], MOST_POLLED))
            if bits >> number & 1
        ]
    return found


def find_futex_wait(call: ThreadCall) -> FoundWait:
    """Find the owner of a futex: of a pthread mutex, or the sharers of a semaphore of multiprocessing."""
    address = call.args[0]
    if not call.args[1] & FUTEX_PRIVATE:
        shared = find_mapping(call.pid, address)
        if shared:
            pids = [one for one in list_family(call.pid) if find_mapping(one, 0, shared)]
            text = f"a semaphore that processes share ({shared})"
            return FoundWait("futex", shared, text, tuple(pids), "also used by")
    # struct __pthread_mutex_s of glibc: lock, count, owner. 2 is a lock that others wait for
    raw = hang_calls.read_memory(call.pid, address, 12)
    word, _, owner = struct.unpack("=iIi", raw) if len(raw) == 12 else (0, 0, 0)  # noqa: PLR2004
    names = [owner] if word == 2 else [word & FUTEX_TID]  # noqa: PLR2004 (glibc's lowlevellock.h)
    for thread in names:
        if thread not in (0, call.pid) and os.path.exists(f"/proc/{call.pid}/task/{thread}"):
            name = watch_look.read_proc_bytes(f"/proc/{call.pid}/task/{thread}/comm").decode(
                "utf-8", "replace"
            )
            held = (
                f"a mutex that its thread {thread} ({hang_calls.shorten_text(name.strip())}) holds"
            )
            return FoundWait("futex", str(thread), held)
    return FoundWait("futex", "", "a lock or another thread")


def find_mapping(pid: int, address: int, inside: str = "") -> str:
    """Return the shared file mapped at an address of a process, or whether it maps a file: then its path."""
    for line in watch_look.read_proc_bytes(f"/proc/{pid}/maps", 1 << 20).splitlines():
        words = line.decode("utf-8", "replace").split(None, 5)
        if len(words) < 6 or words[1][-1:] != "s":  # noqa: PLR2004 (proc(5): the path is the sixth)
            continue
        first, _, last = words[0].partition("-")
        path = hang_calls.shorten_text(f"{words[5]}, inode {words[4]}")
        if path == inside or (not inside and int(first, 16) <= address < int(last, 16)):
            return path
    return ""


def list_family(pid: int) -> list[int]:
    """Return the relatives of a process, which alone can share an unnamed semaphore with it."""
    parents = watch_look.map_parents()
    parent = parents.get(pid, 0)
    found = [one for one, of in parents.items() if of in (pid, parent) and one != pid]
    return [*([parent] if parent > 1 else []), *found][: 2 * MOST_PARTIES]


def has_no_descriptors(call: ThreadCall) -> bool:
    """Return whether a call waits only for its time limit, as time.sleep does before Python 3.11."""
    at = {"select": 0, "pselect6": 0, "poll": 1, "ppoll": 1}.get(call.name)
    return at is not None and hang_calls.as_descriptor(call.args[at]) == 0


def find_sleep(call: ThreadCall) -> FoundWait:
    """Describe a sleep."""
    at = {"clock_nanosleep": 2, "nanosleep": 0, "pselect6": 4, "ppoll": 2}.get(call.name)
    seconds = -1.0 if at is None else hang_calls.read_time_limit(call.pid, call.args[at])
    absolute = call.name == "clock_nanosleep" and call.args[1] & 1  # TIMER_ABSTIME
    known = not absolute and 0 <= seconds < LONGEST_SLEEP
    length = f" of {seconds:g} s" if known else ""
    return FoundWait("sleep", "", f"the end of its sleep{length}")


def read_ipc_row(pid: int, kind: str, number: int) -> dict[str, str]:
    """Return the row of /proc/sysvipc of a queue or semaphore, or {} if it is a container's own."""
    try:
        if os.readlink(f"/proc/{pid}/ns/ipc") != os.readlink("/proc/self/ns/ipc"):
            return {}
    except OSError:
        return {}
    text = watch_look.read_proc_bytes(f"/proc/sysvipc/{kind}", MOST_TABLE).decode(
        "ascii", "replace"
    )
    head, *rows = text.splitlines() or [""]
    for row in rows:
        found = dict(zip(head.split(), row.split()))
        if found.get("msqid" if kind == "msg" else "semid") == str(number):
            return found
    return {}


def find_system_queue(call: ThreadCall) -> FoundWait:
    """Find the last sender or receiver of a System V message queue."""
    number = hang_calls.as_descriptor(call.args[0])
    row = read_ipc_row(call.pid, "msg", number)
    sends = call.name == "msgsnd"
    pid = int(row.get("lrpid" if sends else "lspid", "0"))
    text = (
        f"space in the System V message queue {number}"
        if sends
        else f"a message in the System V queue {number}"
    )
    text += f" (key {row['key']})" if row else ""
    role = "last read by" if sends else "last written by"
    alive = pid > 0 and os.path.exists(f"/proc/{pid}")
    missing = (
        f"{role} process {pid}, which has ended"
        if pid
        else "to which no process has sent" * (not sends)
    )
    return FoundWait("queue", str(number), text, (pid,) if alive else (), role, missing)


def find_semaphore(call: ThreadCall) -> FoundWait:
    """Find the process that changed a System V semaphore last, which probably holds it."""
    number = hang_calls.as_descriptor(call.args[0])
    row = read_ipc_row(call.pid, "sem", number)
    raw = hang_calls.read_memory(call.pid, call.args[1], 6)  # struct sembuf
    at = int.from_bytes(raw[:2], "little") if raw else 0
    text = f"semaphore {at} of the System V set {number}" + (f" (key {row['key']})" if row else "")
    pid = ctypes.CDLL(None).semctl(number, at, GETPID, 0) if row else 0
    alive = pid > 0 and os.path.exists(f"/proc/{pid}")
    missing = f"last changed by process {pid}, which has ended" if pid > 0 else ""
    return FoundWait(
        "semaphore", str(number), text, (pid,) if alive else (), "last changed by", missing
    )


def find_ring_wait(call: ThreadCall) -> FoundWait:
    """Describe a wait for asynchronous input or output."""
    if call.name != "io_uring_enter":
        return FoundWait("file", "", f"asynchronous input or output ({call.name})")
    return FoundWait("file", "io_uring", f"{call.args[2]} completions of io_uring")


def find_signal_wait(call: ThreadCall) -> FoundWait:
    """Describe a wait for a signal."""
    return FoundWait("signal", "", f"a signal ({call.name})")


def find_restarted(call: ThreadCall) -> FoundWait:
    """Describe a sleep, poll or futex call that goes on after a stop of the process."""
    return FoundWait("other", "", "the end of a call that a stop interrupted")


OTHERS: dict[tuple[str, ...], Callable[[ThreadCall], FoundWait]] = {
    tuple(OPENS): find_opened_file,
    ("wait4", "waitid"): find_child_wait,
    ("futex", "futex_waitv"): find_futex_wait,
    ("nanosleep", "clock_nanosleep"): find_sleep,
    ("msgrcv", "msgsnd"): find_system_queue,
    ("semop", "semtimedop"): find_semaphore,
    ("io_uring_enter", "io_getevents", "io_pgetevents"): find_ring_wait,
    SIGNALS: find_signal_wait,
    ("restart_syscall",): find_restarted,
}
