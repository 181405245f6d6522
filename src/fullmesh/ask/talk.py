"""Exchange a query and its answer with a node, even if other programs print to the same stream."""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from fullmesh import contract
from fullmesh.ask import program
from fullmesh.ask.channel import Channel, read_stderr_tail
from fullmesh.ask.mux import SessionLostError
from fullmesh.foreign_text import parse_foreign_json
from fullmesh.observed.ask import NodeAnswer, NodeQuestion

BLOCK = 1 << 16
# More noise than this is not a banner, and a larger answer does not come from Fullmesh.
MOST_NOISE = 1 << 20
MOST_ANSWER = 16 << 20
# the node's own alarm comes after the controller has timed out
GRACE_SECONDS = 5
# ssh's own exit status (ssh(1))
SSH_FAILED = 255
# until ssh has closed the session after an answer
FAREWELL_SECONDS = 1
# how long a node's program that was asked to stop may take for its answer
STOP_SECONDS = 5.0


@dataclass(frozen=True)
class NodeQuery:
    """A query for one node.

    Attributes:
        ask: the function to call.
        given: its arguments.
        seconds: the deadline for the answer.
        folder: the node's cache folder for the program. Empty: no cache.
        hold: if not 0, the program keeps running after its answer, and ends after this many seconds without a
            heartbeat.
        stop: set this event to end the program early.
        keep: takes over the channel if the query is held. It gets the exit stack that closes the channel, and the
            channel.
        silence: seconds after which a node that started to answer and then sends nothing counts as lost. None: never.
    """

    ask: program.QueryKind
    given: Mapping[str, object]
    seconds: int
    folder: str
    hold: float = 0.0
    stop: asyncio.Event | None = None
    keep: Callable[[contextlib.AsyncExitStack, Channel], None] | None = None
    silence: float | None = None

    def line(self, mark: str, made: program.QueryProgram) -> bytes:
        """Return the query in the form that module_utils/fullmesh/ask/boot.py reads."""
        question: NodeQuestion = {
            "name": self.ask.name,
            "mark": mark,
            "program": made.sha256,
            "size": len(made.data),
            "folder": self.folder,
            "seconds": self.seconds + GRACE_SECONDS,
            "module": self.ask.module,
            "function": self.ask.function,
            "given": {**self.given, **({"attached": True} if self.ask.attached else {})},
            "hold": self.hold,
        }
        return json.dumps(question).encode() + b"\n"


@dataclass(frozen=True)
class NodeReply:
    """The outcome of a command on a node.

    Attributes:
        answer: from the node's program (module_utils/fullmesh/ask/boot.py). None if there was no answer.
        status: its exit status. 255 is ssh's own, None means that the connection was lost.
        errors: the text on standard error.
        noise: the text that was printed instead of an answer.
        begun: whether the node's program had sent anything.
        flood: whether there was too much noise to find an answer.
    """

    answer: NodeAnswer | None
    status: int | None
    errors: str
    noise: str
    begun: bool
    flood: bool = False

    def lost(self) -> bool:
        """Return whether the connection to a node that had been reached was lost.

        If ssh cannot reach a node, it prints the reason.
        """
        if self.answer is not None or self.flood:
            return False
        return self.status is None or (
            self.status == SSH_FAILED and (self.begun or not self.errors)
        )


class AnswerReader:
    """Finds the output of the node's program in the whole stream."""

    def __init__(
        self, reader: asyncio.StreamReader, mark: str, silence: float | None = None
    ) -> None:
        self.reader, self.heard = reader, bytearray()
        self.silence, self.silent = silence, False
        self.form = re.compile(re.escape(mark).encode() + rb" (?:program|answer (\d{1,9}))\n")
        self.longest = len(mark) + len(" answer 123456789\n")

    async def more(self) -> bool:
        """Read more of the stream. Return False if it has ended, or is silent for too long."""
        try:
            async with asyncio.timeout(self.silence if self.heard else None):
                block = await self.reader.read(BLOCK)
        except TimeoutError:
            self.silent = True
            return False
        self.heard += block
        return bool(block)

    def flood(self) -> bool:
        """Return whether the stream holds more noise than a banner could."""
        return len(self.heard) > MOST_NOISE

    async def next(self) -> int | None:
        """Return the length of the answer that follows, 0 if the node requests the program, or None for neither."""
        begin = 0
        while True:
            # do not search the same bytes again: a node that sends byte by byte would keep the loop busy
            found = self.form.search(bytes(self.heard[begin:]))
            if found:
                length = int(found[1] or 0)
                del self.heard[: begin + found.end()]
                return length
            begin = max(0, len(self.heard) - self.longest)
            if self.flood() or not await self.more():
                return None

    async def take(self, length: int) -> bytes:
        """Return *length* bytes, or as many as arrive."""
        while len(self.heard) < length and await self.more():
            pass
        return bytes(self.heard[:length])


def parse_node_answer(data: bytes, length: int) -> NodeAnswer | None:
    """Parse an answer. Return None if it is malformed."""
    if len(data) != length:
        return None
    try:
        return contract.convert_value(NodeAnswer, parse_foreign_json(data, most_bytes=MOST_ANSWER))
    except ValueError:
        return None


async def send_data(channel: Channel, data: bytes) -> None:
    """Send data. If the other side is closed, its output or its end shows the reason."""
    with contextlib.suppress(ConnectionError):
        channel.given.write(data)
        await channel.given.drain()


async def send_stop(channel: Channel, stop: asyncio.Event, limit: asyncio.Timeout) -> None:
    """Tell the node's program to end once *stop* is set, and limit the wait for its answer."""
    await stop.wait()
    limit.reschedule(asyncio.get_running_loop().time() + STOP_SECONDS)
    await send_data(channel, b"stop\n")


async def run_query(channel: Channel, asked: NodeQuery) -> NodeReply:
    """Send the query over a channel and read until the end.

    Raises:
        TimeoutError: the node was told to stop and did not answer.
    """
    async with asyncio.timeout(None) as limit:
        if asked.stop is None:
            return await exchange_messages(channel, asked)
        stopper = asyncio.create_task(send_stop(channel, asked.stop, limit))
        try:
            return await exchange_messages(channel, asked)
        finally:
            stopper.cancel()


async def exchange_messages(channel: Channel, asked: NodeQuery) -> NodeReply:
    """Send the query, and the program if the node lacks it. Read the answer."""
    mark = f"fullmesh-{secrets.token_hex(8)}"
    made = program.build_query_program(asked.ask.module)
    ear, answer = AnswerReader(channel.reader, mark, asked.silence), None
    await send_data(channel, program.load_boot_program() + asked.line(mark, made))
    length = await ear.next()
    begun = length is not None
    if length == 0:
        await send_data(channel, made.data)
        length = await ear.next()
    if length and length <= MOST_ANSWER:
        answer = parse_node_answer(await ear.take(length), length)
    if asked.hold and answer is not None:
        return NodeReply(answer, None, "", "", begun=True)
    channel.given.close()
    noise = bytes(ear.heard[-BLOCK:]).decode("utf-8", "replace").strip()
    status: int | None = None
    # with an answer, the exit status no longer matters. Without one, a flood might never end.
    over = answer is not None or ear.flood() or ear.silent
    with contextlib.suppress(SessionLostError, TimeoutError):
        async with asyncio.timeout(FAREWELL_SECONDS if over else None):
            status = await channel.ended()
    errors = read_stderr_tail(channel.errors) or ("it was silent" if ear.silent else "")
    return NodeReply(answer, status, errors, noise, begun or ear.silent, ear.flood())
