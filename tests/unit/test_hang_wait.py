"""Real processes that hang in a system call: which one it is, what they wait for, and for whom."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import fullmesh_hang_calls as hang_calls
import fullmesh_hang_wait as hang_wait
import pytest

from fullmesh.observed.hang import KernelWait

SECONDS = 15.0
LOCKED = "f = open({path!r}, 'w'); import fcntl; fcntl.{call}; "
# time.sleep calls select before Python 3.11
SLEEPS = ("clock_nanosleep", "nanosleep") if sys.version_info >= (3, 11) else ("pselect6", "select")
HOLD = "print('held', flush=True); import time; time.sleep(600)"
PAIR = "import socket; a, b = socket.socketpair(); "
TCP = (
    "import socket; s = socket.create_server(('127.0.0.1', 0)); "
    "c = socket.create_connection(s.getsockname()); p, _ = s.accept(); "
)
FORK = "import os, time; p = os.fork(); p or time.sleep(600); "
LIBC = "import ctypes; libc = ctypes.CDLL(None, use_errno=True); "
FILL = "import os; r, w = os.pipe(); "
EPOLL = "import select; e = select.epoll(); "
MQ = (
    LIBC + "import os; "
    "q = libc.mq_open(b'/fullmesh-%d' % os.getpid(), 0o102, 0o600, None); "
    "libc.mq_unlink(b'/fullmesh-%d' % os.getpid()); "
)
# A ring of io_uring(7) without any operation in it.
RING = (
    LIBC
    + "p = ctypes.create_string_buffer(120); r = libc.syscall(425, 4, p); assert r >= 0, ctypes.get_errno(); "
)
# A filter that notifies a supervisor, who waits in ioctl (seccomp_unotify(2)): it allows every call.
NOTIFY = LIBC + (
    "import struct; libc.prctl(38, 1, 0, 0, 0); "
    "k = ctypes.create_string_buffer(struct.pack('=HBBI', 6, 0, 0, 0x7fff0000)); "
    "g = ctypes.create_string_buffer(struct.pack('@HP', 1, ctypes.addressof(k))); "
    "n = libc.syscall({seccomp}, 1, 8, g); "
    "assert n >= 0, ctypes.get_errno(); "
)
SECCOMP = {"x86_64": 317, "aarch64": 277}[os.uname().machine]
Start = Callable[..., subprocess.Popen[str]]


@pytest.fixture
def start() -> Iterator[Start]:
    """Starts Python with a script, and ends it after the test."""
    running: list[subprocess.Popen[str]] = []

    def begin(script: str, *, wait: bool = False) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [sys.executable, "-S", "-c", script],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        running.append(process)
        if wait:
            assert process.stdout
            assert process.stdout.readline() == "held\n"
        return process

    yield begin
    for process in running:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()


def find_wait(pid: int, names: tuple[str, ...], words: str = "") -> KernelWait:
    """Return the wait once the process is in one of these calls, with these words if they come."""
    end, found = time.monotonic() + SECONDS, None
    while time.monotonic() < end and not (found and words in found["text"]):
        time.sleep(0.02)
        call = hang_calls.read_thread_call(pid)
        if call.state == "S" and call.name in names:
            found = hang_wait.WaitFinder(hang_calls.OpenFiles()).find_wait(pid)
    assert found, f"{hang_calls.read_thread_call(pid)} is not in {names}"
    return found


# Calls, script, kind, and words of the text. {pid} is the process itself.
ALONE = {
    "read of a pipe that this process itself did not close": (
        ("read",),
        FILL + "os.read(r, 1)",
        "pipe",
        "data from a pipe, and this process itself holds the only other end",
    ),
    "write to a full pipe": (
        ("write",),
        FILL + "os.write(w, b'x' * (1 << 24))",
        "pipe",
        "space in a pipe, which is full",
    ),
    "writev to a full pipe": (
        ("writev",),
        FILL + "os.writev(w, [b'x' * (1 << 24)])",
        "pipe",
        "space in a pipe",
    ),
    "recv of a silent peer": (("recvfrom",), TCP + "c.recv(1)", "socket", "data from 127.0.0.1:"),
    "recvmsg of a silent peer": (
        ("recvmsg",),
        TCP + "c.recvmsg(1)",
        "socket",
        "data from 127.0.0.1:",
    ),
    "send to a peer that does not read": (
        ("sendto",),
        TCP + "c.sendall(b'x' * (1 << 28))",
        "socket",
        "to read the data that was sent to it",
    ),
    "recv of a UNIX socket": (
        ("recvfrom",),
        PAIR + "a.recv(1)",
        "socket",
        "data from a UNIX socket, which is written by process {pid}",
    ),
    "accept without a client": (
        ("accept4", "accept"),
        TCP + "s.accept()",
        "socket",
        "a client that connects to 127.0.0.1:",
    ),
    "recv of UDP": (
        ("recvfrom",),
        "import socket; s = socket.socket(2, 2); s.bind(('127.0.0.1', 0)); s.recv(1)",
        "socket",
        "from any sender",
    ),
    "poll of a socket": (
        ("poll", "ppoll"),
        TCP + "c.settimeout(500); c.recv(1)",
        "socket",
        "data from 127.0.0.1:",
    ),
    "poll of a pipe and a socket": (
        ("poll", "ppoll"),
        TCP
        + FILL
        + "import select; q = select.poll(); q.register(r, 1); q.register(c, 1); q.poll()",
        "poll",
        "data from a pipe or data from 127.0.0.1:",
    ),
    "select of a pipe": (
        ("select", "pselect6"),
        FILL + "import select; select.select([r], [], [])",
        "pipe",
        "data from a pipe",
    ),
    "epoll of a pipe": (
        ("epoll_wait", "epoll_pwait"),
        FILL + EPOLL + "e.register(r, 1); e.poll()",
        "pipe",
        "data from a pipe",
    ),
    "asyncio without anything to do": (
        ("epoll_wait", "epoll_pwait"),
        "import asyncio\nasync def wait(): await asyncio.Event().wait()\nasyncio.run(wait())",
        "socket",
        "UNIX socket",
    ),
    "waitpid": (
        ("wait4",),
        FORK + "os.waitpid(p, 0)",
        "child",
        "in " + SLEEPS[0],
    ),
    "waitid of any child": (
        ("waitid",),
        FORK + "os.waitid(os.P_ALL, 0, os.WEXITED)",
        "child",
        "its child process, that is process ",
    ),
    "waitid of a pidfd": (
        ("waitid",),
        FORK + "os.waitid(os.P_PIDFD, os.pidfd_open(p), os.WEXITED)",
        "child",
        "its child process, that is process ",
    ),
    "poll of a pidfd": (
        ("poll", "ppoll"),
        "import os, time, select; p = os.fork(); p or time.sleep(600); "
        "q = select.poll(); q.register(os.pidfd_open(p), 1); q.poll()",
        "child",
        "the end of a process, that is process ",
    ),
    "a sleep": (
        SLEEPS,
        "import time; time.sleep(700)",
        "sleep",
        "the end of its sleep",
    ),
    "a sleep in select": (
        ("select", "pselect6"),
        "import select; select.select([], [], [], 700)",
        "sleep",
        "the end of its sleep",
    ),
    "a sleep in poll": (
        ("poll", "ppoll"),
        "import select; select.poll().poll(700_000)",
        "sleep",
        "the end of its sleep",
    ),
    "a nanosleep": (
        ("clock_nanosleep", "nanosleep"),
        LIBC + "libc.usleep(ctypes.c_uint(700_000_000))",
        "sleep",
        "sleep of 700 s",
    ),
    "a lock of Python": (
        ("futex",),
        "import threading; k = threading.Lock(); k.acquire(); k.acquire()",
        "futex",
        "a lock or another thread",
    ),
    "a mutex of the C library": (
        ("futex",),
        LIBC + "import threading; m = ctypes.create_string_buffer(64); "
        "t = threading.Thread(target=lambda: (libc.pthread_mutex_lock(m), libc.sleep(600)), daemon=True); t.start(); "
        "import time; time.sleep(0.3); libc.pthread_mutex_lock(m)",
        "futex",
        "a mutex that its thread ",
    ),
    "a lock of multiprocessing": (
        ("futex",),
        "import multiprocessing as m, os, time; k = m.Lock(); k.acquire(); "
        "p = os.fork(); p or time.sleep(600); k.acquire()",
        "futex",
        "a semaphore that processes share (/dev/shm/sem.",
    ),
    "pause": (
        ("pause", "ppoll", "rt_sigsuspend"),
        "import signal; signal.pause()",
        "signal",
        "a signal",
    ),
    "sigwait": (
        ("rt_sigtimedwait",),
        "import signal; signal.pthread_sigmask(0, [10]); signal.sigwait([10])",
        "signal",
        "a signal",
    ),
    "a message of a System V queue": (
        ("msgrcv",),
        LIBC + "q = libc.msgget(0, 0o1600); b = ctypes.create_string_buffer(99); "
        "libc.msgrcv(q, b, ctypes.c_size_t(9), ctypes.c_long(0), 0)",
        "queue",
        "a message in the System V queue ",
    ),
    "a System V semaphore": (
        ("semop", "semtimedop"),
        LIBC + "import struct; q = libc.semget(0, 2, 0o1600); "
        "b = ctypes.create_string_buffer(struct.pack('=Hhh', 1, -1, 0)); libc.semop(q, b, ctypes.c_size_t(1))",
        "semaphore",
        "semaphore 1 of the System V set ",
    ),
    "a message of a POSIX queue": (
        ("mq_timedreceive",),
        MQ
        + "b = ctypes.create_string_buffer(1 << 16); libc.mq_receive(q, b, ctypes.c_size_t(1 << 16), None)",
        "queue",
        "a message in queue /fullmesh-",
    ),
    "io_uring": (
        ("io_uring_enter",),
        RING + "libc.syscall(426, r, 0, 3, 1, None, 0)",
        "file",
        "3 completions of io_uring",
    ),
    "an ioctl": (
        ("ioctl",),
        NOTIFY.format(seccomp=SECCOMP)
        + "libc.ioctl(n, ctypes.c_ulong(0xc0502100), ctypes.create_string_buffer(80))",
        "event",
        "seccomp notify (ioctl)",
    ),
    "read of a terminal": (
        ("read",),
        "import os; m, s = os.openpty(); os.read(s, 1)",
        "device",
        "the device /dev/pts/",
    ),
}


@pytest.mark.parametrize("name", ALONE)
def test_a_process_that_waits_alone(name: str, start: Start) -> None:
    names, script, kind, words = ALONE[name]
    process = start(script)
    try:
        found = find_wait(process.pid, names, words.format(pid=process.pid))
    except AssertionError:
        if process.poll() is not None and name in ("an ioctl", "io_uring"):
            pytest.skip("this kernel does not allow the call")
        raise
    assert found["kind"] == kind, found
    assert words.format(pid=process.pid) in found["text"], found


@pytest.mark.parametrize(
    ("call", "names"),
    [
        ("flock(f, fcntl.LOCK_EX)", ("flock",)),
        ("lockf(f, fcntl.LOCK_EX)", ("fcntl",)),
        # struct flock: type, whence, start, length, process
        ("fcntl(f, 38, struct.pack('=hhxxxxqqixxxx', 1, 0, 0, 0, 0))", ("fcntl",)),
    ],
    ids=["flock", "POSIX", "OFD"],
)
def test_the_holder_of_a_file_lock_is_named(
    call: str, names: tuple[str, ...], start: Start, tmp_path: Path
) -> None:
    script = "import struct; " + LOCKED.format(path=f"{tmp_path}/data.lock", call=call)
    holder = start(script + HOLD, wait=True)
    found = find_wait(start(script).pid, names)
    assert (found["kind"], found["target"]) == ("lock", f"{tmp_path}/data.lock")
    assert [one["pid"] for one in found["parties"]] == [holder.pid]
    assert f"held by process {holder.pid} (python" in found["text"]
    holder.send_signal(signal.SIGSTOP)
    while hang_calls.read_process_state(holder.pid) != "T":
        time.sleep(0.01)
    assert find_wait(start(script).pid, names, ", stopped)")["text"].endswith(", stopped)")


def test_a_lock_that_an_ended_process_left_to_its_child_is_the_childs(
    start: Start, tmp_path: Path
) -> None:
    script = LOCKED.format(path=f"{tmp_path}/lock", call="flock(f, fcntl.LOCK_EX)")
    begins = (
        script
        + "import os, time\nif os.fork(): os._exit(0)\nprint('held', flush=True); time.sleep(600)"
    )
    begun = start(begins, wait=True)
    begun.wait()
    (party,) = find_wait(start(script).pid, ("flock",))["parties"]
    assert party["pid"] not in (0, begun.pid)
    assert os.getpgid(party["pid"]) == begun.pid


@pytest.mark.parametrize(
    ("mode", "words"),
    [
        ("O_RDONLY", "for writing, which it opens for reading"),
        ("O_WRONLY", "for reading, which it opens for writing"),
    ],
)
def test_the_open_of_a_fifo_without_another_end(
    mode: str, words: str, start: Start, tmp_path: Path
) -> None:
    os.mkfifo(tmp_path / "batches")
    found = find_wait(
        start(f"import os; os.open('{tmp_path}/batches', os.{mode})").pid, ("openat", "open")
    )
    assert (found["kind"], found["target"]) == ("fifo", f"{tmp_path}/batches")
    assert found["text"] == f"another process to open the FIFO {tmp_path}/batches {words}"


def test_the_writer_of_a_fifo_is_named(start: Start, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "batches")
    reader = start(f"import os; os.read(os.open('{tmp_path}/batches', os.O_RDONLY), 1)")
    writer = start(f"w = open('{tmp_path}/batches', 'w'); " + HOLD, wait=True)
    found = find_wait(reader.pid, ("read",))
    assert [one["pid"] for one in found["parties"]] == [writer.pid]
    assert found["text"].startswith(f"data from the FIFO {tmp_path}/batches, which is written by")


def test_the_process_at_the_other_end_of_a_connection_is_named(start: Start) -> None:
    server = start(
        "import socket; s = socket.create_server(('127.0.0.1', 0)); print('held', flush=True); "
        "print(s.getsockname()[1], flush=True); c, _ = s.accept(); c.recv(9); import time; time.sleep(600)",
        wait=True,
    )
    assert server.stdout
    port = int(server.stdout.readline())
    client = start(
        f"import socket; c = socket.create_connection(('127.0.0.1', {port})); c.send(b'GET'); c.recv(1)"
    )
    find_wait(server.pid, SLEEPS)
    found = find_wait(client.pid, ("recvfrom",))
    assert found["target"] == f"127.0.0.1:{port}"
    assert [one["pid"] for one in found["parties"]] == [server.pid]
    assert f"data from 127.0.0.1:{port}, which here is process {server.pid} (" in found["text"]


def test_a_connection_that_is_not_accepted(start: Start) -> None:
    """Two connections fill the queue of a listener that accepts none, so the third gets no answer."""
    with socket.socket() as server, socket.socket() as first, socket.socket() as second:
        server.bind(("127.0.0.1", 0))
        server.listen(0)
        address = server.getsockname()
        first.connect(address)
        second.setblocking(False)
        second.connect_ex(address)
        client = start(f"import socket; socket.socket().connect({address!r})")
        found = find_wait(client.pid, ("connect",))
        assert found["text"] == f"127.0.0.1:{address[1]} to answer its connection attempt"
        assert found["kind"] == "socket"


def test_the_child_of_a_child_is_followed(start: Start) -> None:
    script = "import subprocess; subprocess.run(['sh', '-c', 'cat | cat; true'])"
    found = find_wait(start(script).pid, ("wait4",), "waits for one of its child processes")
    (child,) = found["parties"]
    assert child["command"] == "sh -c cat | cat; true"
    assert f"that is process {child['pid']} (sh -c cat | cat; true, waits for" in found["text"]


def test_two_processes_that_wait_for_each_other_are_followed_once(start: Start) -> None:
    pairs = PAIR + "import os; p = os.fork(); (a if p else b).close(); (b if p else a).recv(1)"
    process = start(pairs)
    found = find_wait(process.pid, ("recvfrom",), "which waits for this one")
    assert found["text"].count("data from a UNIX socket") == 2
    assert found["text"].endswith(", which waits for this one))")


def test_a_process_that_uses_the_cpu_or_has_ended_waits_for_nothing(start: Start) -> None:
    busy = start("while True: pass")
    before = hang_calls.read_cpu_seconds(busy.pid)
    end = time.monotonic() + SECONDS
    while hang_calls.read_cpu_seconds(busy.pid)[0] - before[0] < 0.2:
        assert time.monotonic() < end
        time.sleep(0.05)
    finder = hang_wait.WaitFinder(hang_calls.OpenFiles())
    assert finder.find_wait(busy.pid) is None
    busy.kill()
    busy.wait()
    assert finder.find_wait(busy.pid) is None
    assert hang_calls.read_cpu_seconds(busy.pid) == (-1, -1)
    assert finder.describe_party(busy.pid, ())["doing"] == "ended"


def test_other_processes_are_not_searched_for_a_watch(start: Start) -> None:
    process = start(PAIR + FILL + "os.read(r, 1)")
    find_wait(process.pid, ("read",))
    found = hang_wait.WaitFinder(None).find_wait(process.pid)
    assert found
    assert found["text"] == "data from a pipe"


def test_commands_are_short_and_have_no_secrets(start: Start) -> None:
    words = ["--password", "hunter2", "--token=hunter2", "API_KEY=hunter2", "a\x1b[2Jb", "x" * 999]
    process = subprocess.Popen([sys.executable, "-c", "input()", *words], stdin=subprocess.PIPE)
    try:
        find_wait(process.pid, ("read",))
        shown = hang_calls.describe_command(process.pid)
        assert shown.startswith("python")
        assert "hunter2" not in shown
        assert shown.isprintable()
        assert len(shown) <= 80
    finally:
        process.kill()
        process.communicate()


def test_the_numbers_of_both_machines() -> None:
    """Some of each column of the kernel's tables, and no number twice."""
    x86, arm = map(hang_calls.list_call_names, ("x86_64", "aarch64"))
    assert [x86[one] for one in (73, 72, 61, 45, 257, 202)] == [
        "flock", "fcntl", "wait4", "recvfrom", "openat", "futex"]  # fmt: skip
    assert [arm[one] for one in (32, 25, 260, 207, 56, 98)] == [
        "flock", "fcntl", "wait4", "recvfrom", "openat", "futex"]  # fmt: skip
    rows = [one for one in hang_calls.TABLE.replace("\n", "|").split("|") if one]
    assert len(x86) == len(rows)
    assert len(arm) == len([one for one in rows if not one.endswith("-")])
    assert hang_calls.list_call_names("riscv64") == {}


@pytest.mark.parametrize(
    "raw", [b"", b"x", b"1: -> FLOCK", b"sl local\n 0: zz:1 1 2 3 4 5 6 7 8 9 10"]
)
def test_damaged_tables_of_the_kernel_give_nothing(
    raw: bytes, start: Start, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    script = LOCKED.format(path=f"{tmp_path}/lock", call="flock(f, fcntl.LOCK_EX)")
    start(script + HOLD, wait=True)
    pids = [start(script).pid, start(TCP + "c.recv(1)").pid]
    for pid, name in zip(pids, ("flock", "recvfrom")):
        find_wait(pid, (name,))
    real = hang_calls.watch_look.read_proc_bytes

    def damaged(path: str, *most: int) -> bytes:
        return raw if path.endswith(("locks", "tcp", "tcp6", "udp", "udp6")) else real(path, *most)

    monkeypatch.setattr(hang_calls.watch_look, "read_proc_bytes", damaged)
    finder = hang_wait.WaitFinder(hang_calls.OpenFiles())
    first, second = (finder.find_wait(pid) for pid in pids)
    assert first
    assert first["parties"] == []
    assert "no process of this node holds it" in first["text"]
    assert second
    assert second["kind"] == "socket"
