"""A session over a connection that OpenSSH keeps open: the client's side of its multiplexing protocol.

``ssh -o ControlMaster=auto -o ControlPersist=…`` leaves a process behind that holds the connection. Another ``ssh``
for the same host only hands its three file descriptors to that process through the control socket. This does the same
without starting another ``ssh``: OpenSSH's PROTOCOL.mux, version 4, messages and numbers as named there.
Host keys, keys, jumps and every option of ssh_config(5) stay with the process that made the connection.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

VERSION: Final = 4
HELLO: Final = 0x00000001
NEW_SESSION: Final = 0x10000002
PERMISSION_DENIED: Final = 0x80000002
FAILURE: Final = 0x80000003
EXIT_MESSAGE: Final = 0x80000004
SESSION_OPENED: Final = 0x80000006
TTY_ALLOC_FAIL: Final = 0x80000008
NO_ESCAPE: Final = 0xFFFFFFFF
# its own number
SHORTEST: Final = 4
# OpenSSH refuses larger ones as well (mux.c)
LONGEST: Final = 256 * 1024


class MuxError(Exception):
    """No session came of it: nobody listens, or the connection's holder refuses. Nothing was run."""


class SessionLostError(Exception):
    """The session began and its end was never told: the connection broke, or its holder ended."""


@dataclass(frozen=True)
class MuxMessage:
    """A message of the protocol: its number, and what follows."""

    kind: int
    rest: bytes

    def number(self, at: int) -> int:
        """The 32-bit number at a place of the rest.

        Raises:
            MuxError: there is none.
        """
        if len(self.rest) < at + 4:
            raise MuxError(f"message {self.kind:#x} ends early")
        return int(struct.unpack_from(">I", self.rest, at)[0])

    def text(self, at: int) -> str:
        """The text at a place of the rest, as much of it as there is."""
        return self.rest[at + 4 : at + 4 + self.number(at)].decode("utf-8", "replace")


def pack_message(*values: int | str) -> bytes:
    """Numbers and texts as the protocol has them, with the length before."""
    parts = []
    for value in values:
        if isinstance(value, int):
            parts.append(struct.pack(">I", value))
        else:
            data = value.encode()
            parts.append(struct.pack(">I", len(data)) + data)
    body = b"".join(parts)
    return struct.pack(">I", len(body)) + body


def build_session_request(request: int, command: str) -> bytes:
    """The request for a session without a terminal, without forwarding, that runs *command*."""
    reserved, no = "", 0
    return pack_message(NEW_SESSION, request, reserved, no, no, no, no, NO_ESCAPE, "", command)


async def receive_bytes(control: socket.socket, count: int) -> bytes:
    """Exactly *count* bytes.

    Raises:
        EOFError: the other side closed before.
    """
    loop, parts = asyncio.get_running_loop(), bytearray()
    while len(parts) < count:
        part = await loop.sock_recv(control, count - len(parts))
        if not part:
            raise EOFError
        parts += part
    return bytes(parts)


async def receive_message(control: socket.socket) -> MuxMessage:
    """The next message.

    Raises:
        EOFError: the other side closed.
        MuxError: it is no message of the protocol.
    """
    (length,) = struct.unpack(">I", await receive_bytes(control, 4))
    if not SHORTEST <= length <= LONGEST:
        raise MuxError(f"a message of {length} bytes")
    body = await receive_bytes(control, length)
    return MuxMessage(struct.unpack_from(">I", body)[0], body[4:])


class ControlSocket:
    """The control socket of a kept connection, past the greeting."""

    def __init__(self, control: socket.socket) -> None:
        self.control = control

    @classmethod
    async def connect(cls, path: Path) -> ControlSocket:
        """Greet who holds the connection.

        Raises:
            MuxError: nobody is there, or somebody who speaks another version.
        """
        control = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        control.setblocking(False)
        loop = asyncio.get_running_loop()
        try:
            await loop.sock_connect(control, str(path))
            await loop.sock_sendall(control, pack_message(HELLO, VERSION))
            hello = await receive_message(control)
            if hello.kind != HELLO or hello.number(0) != VERSION:
                raise MuxError(f"{path} speaks another version of the protocol")
        except (OSError, EOFError) as error:
            control.close()
            raise MuxError(f"{path}: {error or 'closed'}") from error
        except BaseException:
            control.close()
            raise
        return cls(control)

    async def open(self, command: str, files: Sequence[int]) -> int:
        """Begin a session with standard input, output and error, which the other side takes copies of; its number.

        Raises:
            MuxError: it is refused.
        """
        loop = asyncio.get_running_loop()
        try:
            await loop.sock_sendall(self.control, build_session_request(1, command))
            for one in files:
                # three small writes into a fresh socket: its buffer takes them
                socket.send_fds(self.control, [b"\0"], [one])
            said = await receive_message(self.control)
        except (OSError, EOFError) as error:
            raise MuxError(f"the session was not opened: {error or 'closed'}") from error
        if said.kind in (PERMISSION_DENIED, FAILURE):
            raise MuxError(f"the session was refused: {said.text(4)}")
        if said.kind != SESSION_OPENED:
            raise MuxError(f"an answer of kind {said.kind:#x} to a request for a session")
        return said.number(4)

    async def ended(self) -> int:
        """Wait for the session's end; the command's exit status.

        Raises:
            CutError: the connection went away first.
        """
        while True:
            try:
                said = await receive_message(self.control)
            except (OSError, EOFError, MuxError) as error:
                raise SessionLostError(
                    "the connection was lost before the command ended"
                ) from error
            if said.kind == EXIT_MESSAGE:
                return said.number(4)
            if said.kind != TTY_ALLOC_FAIL:
                raise SessionLostError(
                    f"an unknown message {said.kind:#x} before the command ended"
                )

    def close(self) -> None:
        """Leave; a session that still runs is closed by the connection's holder."""
        with contextlib.suppress(OSError):
            self.control.close()
