"""The other side of OpenSSH's multiplexing protocol, for tests without an sshd: runs what is asked for here.

Written after PROTOCOL.mux as src/fullmesh/ask/mux.py is, and apart from it; tests/fleet holds that against OpenSSH.
"""

from __future__ import annotations

import os
import socket
import struct
import subprocess
import threading
from pathlib import Path

HELLO, OPENED, EXIT, FAILURE, DENIED = 1, 0x80000006, 0x80000004, 0x80000003, 0x80000002


def frame(*values: int | bytes) -> bytes:
    body = b"".join(
        struct.pack(">I", one) if isinstance(one, int) else struct.pack(">I", len(one)) + one
        for one in values
    )
    return struct.pack(">I", len(body)) + body


def exactly(control: socket.socket, count: int) -> bytes:
    data = b""
    while len(data) < count:
        part = control.recv(count - len(data))
        if not part:
            raise EOFError
        data += part
    return data


def packet(control: socket.socket) -> bytes:
    return exactly(control, struct.unpack(">I", exactly(control, 4))[0])


class Master:
    """A kept connection.

    Args:
        path: its control socket.
        kind: ``runs``; ``denies`` every session; ``cuts`` the connection once the command has said something; ``other``
            version; ``mute``: accepts and says nothing.
    """

    def __init__(self, path: Path, kind: str = "runs") -> None:
        self.kind, self.commands = kind, list[str]()
        self.listener = socket.socket(socket.AF_UNIX)
        self.listener.bind(str(path))
        self.listener.listen(64)
        self.open: list[socket.socket] = []
        threading.Thread(target=self.serve, daemon=True).start()

    def serve(self) -> None:
        while True:
            try:
                control, _ = self.listener.accept()
            except OSError:
                return
            self.open.append(control)
            threading.Thread(target=self.session, args=(control,), daemon=True).start()

    def session(self, control: socket.socket) -> None:
        try:
            self.speak(control)
        except (EOFError, OSError):
            pass
        finally:
            control.close()

    def speak(self, control: socket.socket) -> None:
        if self.kind == "mute":
            control.recv(1 << 16)
            control.recv(1 << 16)
            return
        control.sendall(frame(HELLO, 3 if self.kind == "other" else 4))
        packet(control)
        asked = packet(control)
        kind, request, reserved = struct.unpack_from(">III", asked)
        assert (kind, reserved) == (0x10000002, 0)
        # four switches, the escape character, the terminal's name
        at = 12 + 4 * 5
        (length,) = struct.unpack_from(">I", asked, at)
        at += 4 + length
        (length,) = struct.unpack_from(">I", asked, at)
        command = asked[at + 4 : at + 4 + length].decode()
        files = [socket.recv_fds(control, 1, 1)[1][0] for _ in range(3)]
        if self.kind == "denies":
            control.sendall(frame(DENIED, request, b"no more sessions"))
            return
        self.commands.append(command)
        control.sendall(frame(OPENED, request, 7))
        if self.kind == "cuts":
            os.write(files[1], b"half a ")
        else:
            done = subprocess.run(
                ["/bin/sh", "-c", command],
                stdin=files[0],
                stdout=files[1],
                stderr=files[2],
                check=False,
            )
            control.sendall(frame(EXIT, 7, done.returncode))
        for one in files:
            os.close(one)

    def close(self) -> None:
        self.listener.close()
