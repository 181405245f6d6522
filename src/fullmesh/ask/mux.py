"""Open a session over a connection that OpenSSH keeps: the client side of its multiplexing protocol.

``ssh -o ControlMaster=auto -o ControlPersist=…`` leaves a master process behind that holds the connection. Another
``ssh`` to the same host only passes its three file descriptors to that process through the control socket. This
module does the same without starting another ``ssh``: OpenSSH's PROTOCOL.mux, version 4, messages and numbers as
named there. Host keys, keys, jumps and every option of ssh_config(5) stay with the master process.
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
# a message holds at least its number
SHORTEST: Final = 4
# OpenSSH refuses larger ones as well (mux.c)
LONGEST: Final = 256 * 1024


class MuxError(Exception):
    """No session was opened, and nothing ran: the socket has no listener, or the master process refused."""


class SessionLostError(Exception):
    """The session began but its end was never reported: the connection broke, or its master process ended."""


@dataclass(frozen=True)
class MuxMessage:
    """A message of the protocol: its number and its remaining bytes."""

    kind: int
    rest: bytes

    def number(self, at: int) -> int:
        """Return the 32-bit number at an offset of the rest.

        Raises:
            MuxError: the message is too short.
        """
        if len(self.rest) < at + 4:
            raise MuxError(f"message {self.kind:#x} ends early")
        return int(struct.unpack_from(">I", self.rest, at)[0])

    def text(self, at: int) -> str:
        """Return the text at an offset of the rest, or as much of it as there is."""
        return self.rest[at + 4 : at + 4 + self.number(at)].decode("utf-8", "replace")


def pack_message(*values: int | str) -> bytes:
    """Pack numbers and texts as the protocol encodes them, prefixed with the length."""
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
    """Build the request for a session without terminal and forwarding that runs *command*."""
    reserved, no = "", 0
    return pack_message(NEW_SESSION, request, reserved, no, no, no, no, NO_ESCAPE, "", command)


async def receive_bytes(control: socket.socket, count: int) -> bytes:
    """Receive exactly *count* bytes.

    Raises:
        EOFError: the other side closed first.
    """
    loop, parts = asyncio.get_running_loop(), bytearray()
    while len(parts) < count:
        part = await loop.sock_recv(control, count - len(parts))
        if not part:
            raise EOFError
        parts += part
    return bytes(parts)


async def receive_message(control: socket.socket) -> MuxMessage:
    """Receive the next message.

    Raises:
        EOFError: the other side closed.
        MuxError: it is not a message of the protocol.
    """
    (length,) = struct.unpack(">I", await receive_bytes(control, 4))
    if not SHORTEST <= length <= LONGEST:
        raise MuxError(f"a message of {length} bytes")
    body = await receive_bytes(control, length)
    return MuxMessage(struct.unpack_from(">I", body)[0], body[4:])


class ControlSocket:
    """The control socket of a kept connection, after the greeting."""

    def __init__(self, control: socket.socket) -> None:
        self.control = control

    @classmethod
    async def connect(cls, path: Path) -> ControlSocket:
        """Exchange greetings with the master process.

        Raises:
            MuxError: the socket has no listener, or it uses another version of the protocol.
        """
        control = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        control.setblocking(False)
        loop = asyncio.get_running_loop()
        try:
            await loop.sock_connect(control, str(path))
            await loop.sock_sendall(control, pack_message(HELLO, VERSION))
            hello = await receive_message(control)
            if hello.kind != HELLO or hello.number(0) != VERSION:
                raise MuxError(f"{path} uses another version of the protocol")
        except (OSError, EOFError) as error:
            control.close()
            raise MuxError(f"{path}: {error or 'closed'}") from error
        except BaseException:
            control.close()
            raise
        return cls(control)

    async def open(self, command: str, files: Sequence[int]) -> int:
        """Begin a session with standard input, output and error, and return its number.

        The master process takes copies of the three descriptors.

        Raises:
            MuxError: the master process refused.
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
        """Wait for the end of the session and return the command's exit status.

        Raises:
            SessionLostError: the connection was lost first.
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
        """Close the socket. The master process then closes a session that is still running."""
        with contextlib.suppress(OSError):
            self.control.close()
