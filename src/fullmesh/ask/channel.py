"""Run a command on a node, over the kept connection or over a new one that ssh makes and keeps."""

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

# bytes kept of a node's output other than its answer
KEPT_WORDS = 64 * 1024
BUFFER = 1 << 16
# A process that holds the output open after the kill must not delay the controller.
KILLED_WITHIN = 1.0


@dataclass(frozen=True)
class ConnectionSpec:
    """The way in which Ansible would reach a node.

    Attributes:
        argv: ssh with all of Ansible's options, up to and with the host's name. A command follows.
        control: the control socket of the connection that ssh keeps, None if it keeps none.
        command: the command to run on the node, as the user that the task becomes.
        root: whether that user is root, which may cache programs on the node.
        found: whether the node's Python has to be discovered.
        address, user: for messages.
    """

    argv: Sequence[str]
    control: Path | None
    command: str
    root: bool
    found: bool
    address: str
    user: str


class Channel(Protocol):
    """A running command with its stdin, stdout, stderr and exit status."""

    given: asyncio.StreamWriter
    reader: asyncio.StreamReader
    errors: BinaryIO

    async def ended(self) -> int:
        """Wait for the exit status. 255 is ssh's own (ssh(1)).

        Raises:
            SessionLostError: the connection was lost, so the status is unknown.
        """


@dataclass
class ReusedChannel:
    """A command over a kept connection."""

    given: asyncio.StreamWriter
    reader: asyncio.StreamReader
    errors: BinaryIO
    control: mux.ControlSocket

    async def ended(self) -> int:
        """Wait for the exit status that the connection's master process reports."""
        return await self.control.ended()


@dataclass
class NewChannel:
    """A command over a connection that ssh makes."""

    given: asyncio.StreamWriter
    reader: asyncio.StreamReader
    errors: BinaryIO
    process: asyncio.subprocess.Process

    async def ended(self) -> int:
        """Wait for ssh to exit."""
        return await self.process.wait()


def read_stderr_tail(errors: BinaryIO) -> str:
    """Return the text on standard error, or the end of it if it is long."""
    size = errors.seek(0, os.SEEK_END)
    errors.seek(max(0, size - KEPT_WORDS))
    return errors.read().decode("utf-8", "replace").strip()


async def open_pipe_writer(descriptor: int) -> asyncio.StreamWriter:
    """Open a stream that writes into a pipe. The stream owns the descriptor from now on."""
    loop = asyncio.get_running_loop()
    transport, protocol = await loop.connect_write_pipe(
        asyncio.streams.FlowControlMixin, os.fdopen(descriptor, "wb", 0)
    )
    return asyncio.StreamWriter(transport, protocol, None, loop)


async def open_pipe_reader(
    descriptor: int, longest_line: int = BUFFER
) -> tuple[asyncio.StreamReader, asyncio.ReadTransport]:
    """Open a stream that reads from a pipe. The stream owns the descriptor from now on."""
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader(longest_line)
    transport, _ = await loop.connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(descriptor, "rb", 0)
    )
    return reader, transport


@contextlib.asynccontextmanager
async def open_reused_channel(control_path: Path, command: str) -> AsyncIterator[Channel]:
    """Run a command over a kept connection. Leaving the context closes its input and output.

    Raises:
        MuxError: nothing was run.
    """
    # a file, not a pipe: the connection's master process may keep it open for longer than the session lasts
    with tempfile.TemporaryFile() as errors:
        async with contextlib.AsyncExitStack() as stack:
            control = await mux.ControlSocket.connect(control_path)
            stack.callback(control.close)
            their_in, our_in = os.pipe2(os.O_CLOEXEC)
            given = await open_pipe_writer(our_in)
            stack.callback(given.close)
            our_out, their_out = os.pipe2(os.O_CLOEXEC)
            reader, transport = await open_pipe_reader(our_out)
            stack.callback(transport.close)
            try:
                await control.open(command, (their_in, their_out, errors.fileno()))
            finally:
                os.close(their_in)
                os.close(their_out)
            yield ReusedChannel(given, reader, errors, control)


@contextlib.asynccontextmanager
async def open_new_channel(way: ConnectionSpec) -> AsyncIterator[Channel]:
    """Run a command over a connection that ssh makes. Leaving the context kills it if it is still running.

    Raises:
        OSError: there is no ssh.
    """
    loop = asyncio.get_running_loop()
    with tempfile.TemporaryFile() as errors:
        # a new session: without a terminal, ssh cannot prompt for a password
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
            given, reader = process.stdin, process.stdout
            if given is None or reader is None:
                raise OSError("ssh was started without pipes")
            try:
                yield NewChannel(given, reader, errors, process)
            finally:
                given.close()
                if process.returncode is None:
                    # and its child processes (ProxyCommand). The kept connection is in another session.
                    with contextlib.suppress(ProcessLookupError):
                        os.killpg(process.pid, signal.SIGKILL)
                    with contextlib.suppress(TimeoutError):
                        await asyncio.wait_for(process.wait(), KILLED_WITHIN)
