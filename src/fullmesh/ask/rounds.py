"""Query all nodes at once. Each node has its own deadline and does not wait for the others.

No answer of one node ends the query of another: `query_node` returns an outcome and raises nothing.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from fullmesh.ask import channel
from fullmesh.ask.mux import MuxError
from fullmesh.ask.talk import SSH_FAILED, NodeQuery, NodeReply, run_query


@dataclass(frozen=True)
class QueryTimeout:
    """The node did not answer before the deadline."""

    seconds: int


Outcome = NodeReply | QueryTimeout
MOST_SHOWN = 500  # characters of an unexpected error
T = TypeVar("T")


async def query_reused_connection(
    way: channel.ConnectionSpec, asked: NodeQuery
) -> NodeReply | None:
    """Query over the kept connection. Return None if there is none that accepts a session, so nothing ran."""
    if way.control is None:
        return None
    try:
        return await query_channel(channel.open_reused_channel(way.control, way.command), asked)
    except MuxError:
        return None


async def query_new_connection(way: channel.ConnectionSpec, asked: NodeQuery) -> NodeReply:
    """Query over a connection that ssh makes."""
    return await query_channel(channel.open_new_channel(way), asked)


async def query_channel(
    opened: contextlib.AbstractAsyncContextManager[channel.Channel], asked: NodeQuery
) -> NodeReply:
    """Query over a channel. The channel stays open after an answer if the query is held."""
    async with contextlib.AsyncExitStack() as stack:
        there = await stack.enter_async_context(opened)
        reply = await run_query(there, asked)
        if asked.keep is not None and reply.answer is not None:
            asked.keep(stack.pop_all(), there)
        return reply


class QueryDeadline:
    """The rest of a deadline. The time spent waiting for a turn does not count."""

    def __init__(self, seconds: float) -> None:
        self.left = seconds

    async def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run *work* within the time that is left.

        Raises:
            TimeoutError: it took longer.
        """
        loop = asyncio.get_running_loop()
        begun = loop.time()
        try:
            return await asyncio.wait_for(work, self.left)
        finally:
            self.left = max(0.0, self.left - (loop.time() - begun))


async def query_once(
    way: channel.ConnectionSpec, asked: NodeQuery, starts: asyncio.Semaphore, clock: QueryDeadline
) -> NodeReply:
    """Query a node once."""
    reply = await clock.run(query_reused_connection(way, asked))
    if reply is None:
        async with starts:
            reply = await clock.run(query_new_connection(way, asked))
    return reply


async def query_node(
    way: channel.ConnectionSpec, asked: NodeQuery, starts: asyncio.Semaphore
) -> Outcome:
    """Query a node. If the connection is lost and the query only reads, query it once more."""
    clock = QueryDeadline(asked.seconds)
    try:
        reply = await query_once(way, asked, starts, clock)
        again = asked.ask.reads and reply.lost()
        return await query_once(way, asked, starts, clock) if again else reply
    except TimeoutError:
        return QueryTimeout(asked.seconds)
    except OSError as error:
        return NodeReply(None, SSH_FAILED, f"{way.argv[0]}: {error.strerror}", "", begun=False)
    except Exception as error:
        # the answer of one node must not lose the answers of the others
        return NodeReply(
            None, 0, f"the controller cannot read it: {error!r}"[:MOST_SHOWN], "", begun=True
        )


async def query_all_nodes(
    ways: Mapping[str, channel.ConnectionSpec],
    asked: Mapping[str, NodeQuery],
    at_once: int,
    tell: Callable[[str, Outcome], None] = lambda host, outcome: None,
) -> dict[str, Outcome]:
    """Query all nodes.

    Args:
        ways: host -> its connection.
        asked: host -> its query.
        at_once: the number of new connections made at a time. Kept connections do not count.
        tell: is called with each outcome as it arrives.
    """
    starts = asyncio.Semaphore(at_once)
    found: dict[str, Outcome] = {}

    async def ask(host: str) -> None:
        found[host] = await query_node(ways[host], asked[host], starts)
        tell(host, found[host])

    async with asyncio.TaskGroup() as group:
        for host in ways:
            group.create_task(ask(host))
    return {host: found[host] for host in ways}
