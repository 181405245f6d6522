"""A command that runs on a node: over the connection that is kept, or over a new one that ssh makes and keeps."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
import tempfile
from asyncio.subprocess import SubprocessStreamProtocol
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Protocol

from fullmesh.ask import mux

# of what a node says besides its answer
KEPT_WORDS = 64 * 1024
BUFFER = 1 << 16
# Whoever holds its output open after it was killed keeps nobody waiting.
KILLED_WITHIN = 1.0


@dataclass(frozen=True)
class ConnectionSpec:
    """How Ansible would reach a node.

    Attributes:
        argv: ssh with all of Ansible's options, up to and with the host's name; a command follows.
        control: the control socket of the connection that ssh keeps; None where it keeps none.
        command: what is run there, as the user that the task becomes.
        root: whether that is root, who may keep programs on the node.
        found: whether the node's Python was left to be found.
        address, user: for people.
    """

    argv: Sequence[str]
    control: Path | None
    command: str
    root: bool
    found: bool
    address: str
    user: str


class Channel(Protocol):
    """A command that runs: its input and output, and its end."""

    given: asyncio.StreamWriter
    told: asyncio.StreamReader
    errors: BinaryIO

    async def ended(self) -> int:
        """Wait for the exit status; 255 is ssh's own (ssh(1)).

        Raises:
            CutError: it is not known, as the connection is lost.
        """


@dataclass
class ReusedChannel:
    """Over a kept connection."""

    given: asyncio.StreamWriter
    told: asyncio.StreamReader
    errors: BinaryIO
    control: mux.ControlSocket

    async def ended(self) -> int:
        """Wait for what the connection's holder says."""
        return await self.control.ended()


@dataclass
class NewChannel:
    """Over a connection that ssh makes."""

    given: asyncio.StreamWriter
    told: asyncio.StreamReader
    errors: BinaryIO
    process: asyncio.subprocess.Process

    async def ended(self) -> int:
        """Wait for ssh."""
        return await self.process.wait()


def read_stderr_tail(errors: BinaryIO) -> str:
    """What was printed as errors; the end of it when it is long."""
    size = errors.seek(0, os.SEEK_END)
    errors.seek(max(0, size - KEPT_WORDS))
    return errors.read().decode("utf-8", "replace").strip()


async def open_pipe_writer(descriptor: int) -> asyncio.StreamWriter:
    """A stream into a pipe's end, which is ours from now on."""
    loop = asyncio.get_running_loop()
    transport, protocol = await loop.connect_write_pipe(
        asyncio.streams.FlowControlMixin, os.fdopen(descriptor, "wb", 0)
    )
    return asyncio.StreamWriter(transport, protocol, None, loop)


async def open_pipe_reader(
    descriptor: int, longest_line: int = BUFFER
) -> tuple[asyncio.StreamReader, asyncio.ReadTransport]:
    """A stream out of a pipe's end, which is ours from now on."""
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader(longest_line)
    transport, _ = await loop.connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(descriptor, "rb", 0)
    )
    return reader, transport


@contextlib.asynccontextmanager
async def open_reused_channel(control_path: Path, command: str) -> AsyncIterator[Channel]:
    """Run a command over a kept connection; it loses its input and output when this is left.

    Raises:
        MuxError: nothing was run.
    """
    # a file, no pipe: whoever holds the connection may keep it open for longer than the session lasts
    with tempfile.TemporaryFile() as errors:
        async with contextlib.AsyncExitStack() as stack:
            control = await mux.ControlSocket.connect(control_path)
            stack.callback(control.close)
            their_in, our_in = os.pipe2(os.O_CLOEXEC)
            given = await open_pipe_writer(our_in)
            stack.callback(given.close)
            our_out, their_out = os.pipe2(os.O_CLOEXEC)
            told, transport = await open_pipe_reader(our_out)
            stack.callback(transport.close)
            try:
                await control.open(command, (their_in, their_out, errors.fileno()))
            finally:
                os.close(their_in)
                os.close(their_out)
            yield ReusedChannel(given, told, errors, control)


@contextlib.asynccontextmanager
async def open_new_channel(way: ConnectionSpec) -> AsyncIterator[Channel]:
    """Run a command over a connection that ssh makes; it is killed when this is left before its end.

    Raises:
        OSError: there is no ssh.
    """
    loop = asyncio.get_running_loop()
    with tempfile.TemporaryFile() as errors:
        # a session of its own: no terminal from which ssh could ask for a password behind everybody's back
        transport, protocol = await loop.subprocess_exec(
            lambda: SubprocessStreamProtocol(BUFFER, loop),
            *way.argv,
            way.command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            start_new_session=True,
        )
        with contextlib.closing(transport):
            process = asyncio.subprocess.Process(transport, protocol, loop)
            given, told = process.stdin, process.stdout
            if given is None or told is None:
                raise OSError("ssh was started without pipes")
            try:
                yield NewChannel(given, told, errors, process)
            finally:
                given.close()
                if process.returncode is None:
                    # with what it has started (ProxyCommand); the connection that is kept has left its session
                    with contextlib.suppress(ProcessLookupError):
                        os.killpg(process.pid, signal.SIGKILL)
                    with contextlib.suppress(TimeoutError):
                        await asyncio.wait_for(process.wait(), KILLED_WITHIN)
