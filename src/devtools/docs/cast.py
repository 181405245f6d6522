"""A recorded terminal: what a command printed and when, in asciinema's format (version 2)."""

from __future__ import annotations

import fcntl
import json
import os
import pty
import select
import struct
import subprocess
import termios
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

CHUNK = 65536
QUESTION = b"]: "  # how a question of the command line ends


@dataclass(frozen=True)
class TypedCommand:
    """A command that is recorded.

    Attributes:
        command: what runs.
        typed: the command as somebody types it.
        answer: typed as well when it asks.
    """

    command: Sequence[str]
    typed: str
    answer: str = ""


@dataclass(frozen=True)
class Cast:
    """A recording.

    Attributes:
        typed: the command as somebody types it.
        width: columns.
        height: rows.
        events: seconds since the start, and what was printed then.
        code: the command's exit code.
    """

    typed: str
    width: int
    height: int
    events: Sequence[tuple[float, str]]
    code: int

    @property
    def seconds(self) -> float:
        """How long the command took."""
        return self.events[-1][0] if self.events else 0.0

    def dump(self) -> str:
        """The file's text."""
        header = {"version": 2, "width": self.width, "height": self.height, "command": self.typed}
        lines = [json.dumps({**header, "fullmesh_code": self.code})]
        lines += [json.dumps([round(at, 3), "o", text]) for at, text in self.events]
        return "\n".join(lines) + "\n"


def load(path: Path) -> Cast:
    """Read a recording."""
    first, *rest = path.read_text(encoding="utf-8").splitlines()
    header = json.loads(first)
    events = [(at, text) for at, _kind, text in map(json.loads, rest)]
    size = (header["width"], header["height"])
    return Cast(header["command"], *size, events, header["fullmesh_code"])


def printed(terminal: int, process: subprocess.Popen[bytes]) -> Iterator[bytes]:
    """What a process prints on its terminal, as it comes, until it has ended and all is read."""
    while True:
        ready, _, _ = select.select([terminal], [], [], 0.2)
        if not ready:
            if process.poll() is not None:
                return
            continue
        try:
            raw = os.read(terminal, CHUNK)
        except OSError:  # Linux says so when the other end is closed
            return
        if not raw:
            return
        yield raw


def record(typed: TypedCommand, size: tuple[int, int], where: Path, env: Mapping[str, str]) -> Cast:
    """Run a command on a terminal of *size* (columns, rows) and keep what it prints.

    The name of *where* is left out of it: a checkout lies elsewhere on every machine.
    """
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", size[1], size[0], 0, 0))
    begun, events, rest = time.monotonic(), [], b""
    process = subprocess.Popen(
        list(typed.command),
        cwd=where,
        env={**os.environ, **env, "TERM": "xterm-256color", "COLUMNS": str(size[0])},
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        start_new_session=True,
    )
    os.close(theirs)
    for raw in printed(ours, process):
        if typed.answer and raw.endswith(QUESTION):
            os.write(ours, f"{typed.answer}\n".encode())
        whole, rest = split(rest + raw)
        events.append((time.monotonic() - begun, whole.replace(f"{where}/", "")))
    code = process.wait()
    os.close(ours)  # who still runs when a terminal goes away is hung up
    events.append((time.monotonic() - begun, ""))
    return Cast(typed.typed, *size, events, code)


def split(raw: bytes) -> tuple[str, bytes]:
    """The text of some bytes, and the beginning of a character whose end has not come yet."""
    for cut in range(min(4, len(raw) + 1)):
        try:
            return raw[: len(raw) - cut].decode(), raw[len(raw) - cut :]
        except UnicodeDecodeError:
            continue
    return raw.decode(errors="replace"), b""
