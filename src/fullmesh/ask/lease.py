"""Hold the lease of a run on its nodes: one open session per node shows that the controller is there.

Each of Ansible's tasks is a short-lived process, so another process holds the sessions. ``query_and_hold_nodes``
starts it. It ends with the run, and also when ``ansible-playbook`` ends for any other reason. On each node, the
program that holds the lock (module_utils/fullmesh/lease.py) then ends, and with it everything that the run started
there.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any, cast

from fullmesh.ask import program, rounds
from fullmesh.ask.channel import BUFFER, Channel, ConnectionSpec, open_pipe_reader
from fullmesh.ask.rounds import Outcome, QueryTimeout
from fullmesh.ask.talk import NodeQuery, NodeReply
from fullmesh.play.events import PID_VARIABLE

BEAT_SECONDS = 0.5
# A node ends its part of the run after so many silent seconds. With the half second that its processes take to notice,
# nothing of the run is left 5 s after a connection was cut.
SILENCE_SECONDS = 3.5
LONGEST_LINE = 32 << 20


class HeldSessions:
    """The held sessions. A thread sends the heartbeats, so that reading an answer does not delay them."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.pipes: set[int] = set()
        self.stacks: list[contextlib.AsyncExitStack] = []
        self.ends: list[asyncio.Task[None]] = []
        threading.Thread(target=self.beat, daemon=True).start()

    def beat(self) -> None:
        """Send a heartbeat on every session."""
        pause = threading.Event()
        while not pause.wait(BEAT_SECONDS):
            with self.lock:
                for pipe in self.pipes:
                    with contextlib.suppress(OSError):  # it is full, or the session has ended
                        os.write(pipe, b"\n")

    def keep(self, stack: contextlib.AsyncExitStack, there: Channel) -> None:
        """Hold a session until the node's program ends."""
        pipe = there.given.get_extra_info("pipe").fileno()
        with self.lock:
            self.pipes.add(pipe)
        self.stacks.append(stack)
        self.ends.append(asyncio.create_task(self.wait_for_end(pipe, there)))

    async def wait_for_end(self, pipe: int, there: Channel) -> None:
        """Wait until a session has ended."""
        while await there.reader.read(BUFFER):
            pass
        with self.lock:
            self.pipes.discard(pipe)

    async def close(self) -> None:
        """End all sessions."""
        with self.lock:
            self.pipes.clear()
        await asyncio.gather(*(stack.aclose() for stack in self.stacks), return_exceptions=True)


async def wait_for_process(pid: int) -> None:
    """Wait until a process that is not a child of this one has ended."""
    loop, gone = asyncio.get_running_loop(), asyncio.Event()
    try:
        handle = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    except (AttributeError, OSError):  # not Linux, or an old one
        with contextlib.suppress(ProcessLookupError):
            while True:
                os.kill(pid, 0)
                await asyncio.sleep(BEAT_SECONDS)
        return
    loop.add_reader(handle, gone.set)
    await gone.wait()


def format_outcome(host: str, outcome: Outcome) -> str:
    """Format an outcome as a line of JSON."""
    return json.dumps({"host": host, "kind": type(outcome).__name__, **asdict(outcome)})


def parse_outcome(line: bytes) -> tuple[str, Outcome]:
    """Return the host and the outcome of a line from `format_outcome`."""
    said = json.loads(line)
    host, kind = said.pop("host"), said.pop("kind")
    return str(host), QueryTimeout(**said) if kind == QueryTimeout.__name__ else NodeReply(**said)


async def hold_sessions(given: Mapping[str, Any]) -> None:
    """Query every node, print each answer on standard output, and hold the sessions until the run is over."""
    sessions = HeldSessions()
    ways = {
        host: ConnectionSpec(**{**one, "control": one["control"] and Path(one["control"])})
        for host, one in given["ways"].items()
    }
    asked = {
        host: NodeQuery(
            program.KNOWN[given["question"]],
            {**one["given"], "attached": True},
            one["seconds"],
            one["folder"],
            hold=SILENCE_SECONDS,
            keep=sessions.keep,
        )
        for host, one in given["asked"].items()
    }

    def tell(host: str, outcome: Outcome) -> None:
        sys.stdout.write(f"{format_outcome(host, outcome)}\n")
        sys.stdout.flush()

    async def ask_and_wait() -> None:
        await rounds.query_all_nodes(ways, asked, given["at_once"], tell)
        os.close(1)
        if sessions.ends:
            await asyncio.wait(sessions.ends)

    controller = [asyncio.create_task(wait_for_process(pid)) for pid in given["pids"]]
    work = asyncio.create_task(ask_and_wait())
    await asyncio.wait((*controller, work), return_when=asyncio.FIRST_COMPLETED)
    work.cancel()
    await sessions.close()


async def query_and_hold_nodes(
    ways: Mapping[str, ConnectionSpec],
    asked: Mapping[str, NodeQuery],
    at_once: int,
    tell: Callable[[str, Outcome], None],
) -> dict[str, Outcome]:
    """Query all nodes as ``rounds.query_all_nodes`` does, and keep their sessions open until the run is over.

    Raises:
        OSError: the process that holds the sessions could not be started, or ended early.
    """
    given = {
        # ansible-playbook (a task runs in a child of it), and ./fullmesh if that started it
        "pids": [os.getppid(), *map(int, filter(None, [os.environ.get(PID_VARIABLE)]))],
        "at_once": at_once,
        "question": next(iter(asked.values())).ask.name,
        "ways": {
            h: {**asdict(way), "control": way.control and str(way.control)}
            for h, way in ways.items()
        },
        "asked": {
            host: {"given": dict(one.given), "seconds": one.seconds, "folder": one.folder}
            for host, one in asked.items()
        },
    }
    source = str(Path(__file__).resolve().parents[2])
    # Not a child of this loop, which would end it. A new session, so that Ctrl-C only reaches Ansible.
    holder = subprocess.Popen(  # noqa: S603 (this very module)
        [sys.executable, "-m", __name__],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env={**os.environ, "PYTHONPATH": source},
        start_new_session=True,
    )
    pipe_in, pipe_out = cast("Any", holder.stdin), cast("Any", holder.stdout)
    with contextlib.closing(pipe_in):
        await asyncio.to_thread(pipe_in.write, json.dumps(given).encode())
    reader, transport = await open_pipe_reader(os.dup(pipe_out.fileno()), LONGEST_LINE)
    pipe_out.close()
    found: dict[str, Outcome] = {}
    with contextlib.closing(transport):
        while line := await reader.readline():
            host, outcome = parse_outcome(line)
            found[host] = outcome
            tell(host, outcome)
    if len(found) < len(ways):
        raise OSError(f"the process that holds the sessions ended: exit status {holder.poll()}")
    return {host: found[host] for host in ways}


if __name__ == "__main__":
    asyncio.run(hold_sessions(json.load(sys.stdin)))
