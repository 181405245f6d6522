"""Start processes without rights that pretend to be ranks or an exporter.

See adversary.py. Stdlib only.

``python3 -ES adversary_ranks.py NAME`` runs one of them until it is stopped, and prints ``ready``.
`start_fake` starts one with its environment and command line: a rank or a launcher of another
account's job. `start_exporter` starts a node_exporter.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import shutil
import socket
import subprocess
import sys
import time
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

NAME = "\0fullmesh-hang-"
CROWD = 320
EXPORTER, EXPORTER_PORT = "exporter", 9100
CLONE_NEWUSER = 0x10000000
NOBODY = 65534
PR_SET_NAME = 15
ENV_START, ENV_END = 49 - 2, 50 - 2  # fields of /proc/PID/stat after the name (proc_pid_stat(5))


class Fake(NamedTuple):
    """A process that is not a rank.

    Attributes:
        env: its environment besides the job's own variables.
        argv: the options of its alleged torchrun.
        answer: the pieces of data that it sends at its socket, None for no socket.
        comm: its own name.
        apart: it runs in its own user namespace, as the overflow account.
        crowd: the number of processes that it starts, each with its own number.
    """

    env: Mapping[str, str] = {}
    argv: tuple[str, ...] = ()
    answer: Callable[[], Iterator[bytes]] | None = None
    comm: bytes = b""
    apart: bool = False
    crowd: int = 0


def choose_python() -> str:
    """Return a Python that every account may run. That of a virtual environment may be in root's home."""
    path = os.path.realpath(sys.executable)
    folders = [path]
    while os.path.dirname(folders[-1]) != folders[-1]:
        folders.append(os.path.dirname(folders[-1]))
    return (
        sys.executable if all(os.stat(one).st_mode & 1 for one in folders) else "/usr/bin/python3"
    )


def say(text: bytes) -> Callable[[], Iterator[bytes]]:
    """Answer in one piece."""
    return lambda: iter([text])


def say_large() -> Iterator[bytes]:
    """Answer 8 MiB of small lists, which need 207 MiB of memory to parse."""
    yield b'{"why":"x","threads":[' + b"[]," * 2790000 + b"[]]}\n"


def say_nothing() -> Iterator[bytes]:
    """Send nothing while the caller waits."""
    time.sleep(600)
    yield b""


def say_slowly() -> Iterator[bytes]:
    """Send slowly, so that the caller keeps reading."""
    while True:
        yield b" "
        time.sleep(0.005)


FAKES: dict[str, Fake] = {
    "digit": Fake({"RANK": "²"}),
    "huge_rank": Fake({"RANK": str(10**15)}),
    "long_rank": Fake({"RANK": "9" * 5000}),
    "name": Fake({"RANK": "0"}, comm=b"\xff"),
    "torchrun_digit": Fake({}, ("--nproc-per-node=²", "--node-rank=0")),
    "torchrun_huge": Fake({}, (f"--nproc-per-node={10**15}", "--node-rank=0")),
    "torchrun_large": Fake({}, ("--nproc-per-node=131072", "--node-rank=131072")),
    "nested": Fake({"RANK": "1"}, answer=say(b"[" * 100000 + b"\n")),
    "typed_rank": Fake({"RANK": "1"}, answer=say(b'{"why":"","rank":"x"}\n{}')),
    "typed_threads": Fake({"RANK": "1"}, answer=say(b'{"why":"x","rank":1,"threads":[7]}\n{}')),
    "typed_entries": Fake({"RANK": "1"}, answer=say(b'{"why":"","rank":1}\n{"entries":[[7]]}')),
    "number": Fake({"RANK": "1"}, answer=say(b'{"why":"","rank":1' + b"0" * 5000 + b"}\n{}")),
    "not_utf8": Fake({"RANK": "1"}, answer=say(b'{"why":"\xff\xfe","rank":1}\n')),
    "surrogate": Fake({"RANK": "1"}, answer=say(b'{"why":"\\ud800\\u001b[2J","rank":1}\n{}')),
    "large": Fake({"RANK": "1"}, answer=say_large),
    "slow": Fake({"RANK": "1"}, answer=say_slowly),
    "silent": Fake({"RANK": "1"}, answer=say_nothing),
    "large_world": Fake({"RANK": "1", "WORLD_SIZE": "131072"}, answer=say(b'{"why":"x"}\n')),
    "other_job": Fake({"RANK": "0", "TORCHELASTIC_RUN_ID": "\x1b[2J'; id"}),
    "apart": Fake({"RANK": "0"}, apart=True),
    "crowd": Fake({"XANK": "00000"}, answer=say_nothing, crowd=CROWD),
}


def start_fake(
    name: str, job: Mapping[str, str], path: str = __file__, uid: int = -1
) -> subprocess.Popen[bytes]:
    """Start one of the fakes, and wait until it is ready.

    Args:
        name: the fake.
        job: the environment of the ranks of another account's job.
        path: this file, readable for the account.
        uid: the account, or a negative value for that of this process.
    """
    fake = FAKES[name]
    env_values = {**job, **fake.env} if fake.env else {}
    python = choose_python()
    words = [python, "-ES", path, name]
    if fake.argv:
        master = (f"--master-addr={job['MASTER_ADDR']}", f"--master-port={job['MASTER_PORT']}")
        words = ["torchrun", *words[1:], *fake.argv, *master]
    process = subprocess.Popen(
        words,
        executable=python,
        env={"PATH": "/usr/bin:/bin", **env_values},
        cwd="/",
        user=uid if uid >= 0 else None,
        group=uid if uid >= 0 else None,
        extra_groups=[] if uid >= 0 else None,
        stdout=subprocess.PIPE,
        start_new_session=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == b"ready\n", name
    return process


def start_exporter(home: str, folder: str, path: str = __file__) -> subprocess.Popen[bytes]:
    """Start a program that is called node_exporter and names a folder. Wait until it listens."""
    program = os.path.join(home, "node_exporter")
    shutil.copy(os.path.realpath(choose_python()), program)
    os.chmod(program, 0o700)
    words = [program, "-ES", path, EXPORTER, f"--collector.textfile.directory={folder}"]
    process = subprocess.Popen(words, cwd="/", stdout=subprocess.PIPE, start_new_session=True)
    assert process.stdout is not None
    assert process.stdout.readline() == b"ready\n"
    return process


def be_exporter() -> None:
    """Listen at the port that Prometheus scrapes."""
    with socket.create_server(("127.0.0.1", EXPORTER_PORT)):
        print("ready", flush=True)  # noqa: T201 (read by the parent process)
        time.sleep(3600)


def enter_namespace() -> None:
    """Become the account that a user namespace shows for unmapped accounts."""
    own = os.geteuid()
    if ctypes.CDLL(None, use_errno=True).unshare(CLONE_NEWUSER):
        raise OSError(ctypes.get_errno(), "unshare")
    with open("/proc/self/uid_map", "w") as stream:
        stream.write(f"{NOBODY} {own} 1")


def take_number(number: int) -> None:
    """Write a rank into this process' environment, where every account can read it."""
    with open("/proc/self/stat", "rb") as stream:
        fields = stream.read().rpartition(b")")[2].split()
    start, end = int(fields[ENV_START]), int(fields[ENV_END])
    at = ctypes.string_at(start, end - start).index(b"XANK=")
    ctypes.memmove(start + at, b"RANK=%05d" % number, 10)


def serve(fake: Fake, listener: socket.socket) -> None:
    """Send the fake's answer until stopped."""
    assert fake.answer is not None
    while True:
        with contextlib.suppress(OSError), listener.accept()[0] as connection:
            for piece in fake.answer():
                connection.sendall(piece)


def be_fake(name: str) -> None:
    """Run one of the fakes."""
    fake = FAKES[name]
    if fake.apart:
        enter_namespace()
    if fake.comm:
        ctypes.CDLL(None).prctl(PR_SET_NAME, fake.comm, 0, 0, 0)
    there, ready = os.pipe()
    first = True
    for number in range(fake.crowd):
        first = bool(os.fork())
        if not first:
            take_number(number)
            break
    if first:
        for _ in range(fake.crowd):
            os.read(there, 1)
    listener = socket.socket(socket.AF_UNIX)
    if fake.answer is not None and not (fake.crowd and first):
        listener.bind(NAME + str(os.getpid()))
        listener.listen(9)
    if first:
        print("ready", flush=True)  # noqa: T201 (read by the parent process)
    else:
        os.write(ready, b"1")
    if fake.answer is not None and not (fake.crowd and first):
        serve(fake, listener)
    time.sleep(3600)


if __name__ == "__main__":
    if sys.argv[1] == EXPORTER:
        be_exporter()
    be_fake(sys.argv[1])
