"""Names of a diagnosis: this node's own, the master's, those of the plan, and what addresses lead back to.

A name server that says nothing takes seconds to do so. A diagnosis has something better to do in the meantime: a
process of its own asks while listeners and probes are at work, and the last call on the node takes the answers along.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import signal
import socket
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

from ..detach import run_detached, run_directory
from ..foreign_text import parse_foreign_json
from ..lease import end_with_lease, has_lease
from . import net
from .lookup import observe_names

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from ..schema.ladder import DeferredLookups, LadderNodeParams
    from ..schema.survey import ParallelLookups, ReverseName

    Todo = list[tuple[str, Callable[[], Any], Any]]

NAME_SECONDS = 2.5  # a silent name server must not cost more; what took longer is said to be silent
# Ends before those: when both came to their end at the same moment, the one above threw this one's word away (seen once
# in some hundred diagnoses of a silent name server, which then said nothing of it).
REVERSE_SECONDS = 2.0
REVERSED_MOST = 64
LIFE_SECONDS = (
    20  # far beyond all deadlines of the lookups: nobody must wait for a process that hangs
)
ANSWERS = "names.json"


def look_up_reverse_names(peers: list[str]) -> dict[str, ReverseName | None]:
    """Look all peers up at once; None for who got no answer in time."""
    found: dict[str, ReverseName | None] = dict.fromkeys(peers[:REVERSED_MOST])

    def work(peer: str) -> None:
        found[peer] = net.look_up_reverse_name(peer)

    threads = [threading.Thread(target=work, args=(p,), daemon=True) for p in found]
    for thread in threads:
        thread.start()
    ends = time.monotonic() + REVERSE_SECONDS
    for thread in threads:
        thread.join(max(0.0, ends - time.monotonic()))
    return dict(found)


def list_lookups(peers: list[str], master: str) -> Todo:
    """What is asked of name servers, as a survey takes it.

    Args:
        peers: addresses of the other nodes.
        master: MASTER_ADDR of the jobs' environment, "" where it is not set.
    """
    return [
        # whoever gives up first: nobody has answered
        ("reverse", lambda: look_up_reverse_names(peers), dict.fromkeys(peers[:REVERSED_MOST])),
        ("own_answers", lambda: net.look_up_addresses(socket.gethostname(), REVERSE_SECONDS), []),
        ("master_answers", lambda: net.look_up_addresses(master, REVERSE_SECONDS), []),
    ]


def start_name_lookups(
    run: str, base: str, survey: Callable[[], ParallelLookups], want: LadderNodeParams
) -> None:
    """Look names up in a process of its own, which holds a lock on its answers until they are there.

    Args:
        run: of the diagnosis; its directory is there.
        base: where the directories of runs are.
        survey: makes the lookups of :func:`lookups`.
        want: ``hosts`` (the plan's lines) and ``address`` of this node.
    """
    place = os.path.join(run_directory(run, base), ANSWERS)
    with contextlib.suppress(OSError):  # of a call on the same node that failed
        os.unlink(place)
    handle = os.open(place, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)

    def work() -> None:
        signal.alarm(LIFE_SECONDS)
        if has_lease(os.path.dirname(place)):
            end_with_lease(os.path.dirname(place))
        with ThreadPoolExecutor(1) as pool:
            plan = pool.submit(observe_names, want["hosts"], want["address"])
            found: DeferredLookups = {"survey": survey(), "names": plan.result()}
        with os.fdopen(handle, "wb") as stream:
            stream.write(json.dumps(found).encode())

    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        run_detached(
            work, [handle]
        )  # the lock is the file's and ends with its last descriptor (flock(2))
    finally:
        os.close(handle)


def take_name_answers(run: str, base: str) -> DeferredLookups | None:
    """Wait for the answers, which end by themselves, and return them; None where nobody was asked, or answers."""
    try:
        handle = os.open(os.path.join(run_directory(run, base), ANSWERS), os.O_RDONLY)
    except OSError:
        return None
    with os.fdopen(handle, "rb") as stream:
        fcntl.flock(stream, fcntl.LOCK_SH)
        said = stream.read()
    try:
        found: DeferredLookups = parse_foreign_json(said)
    except ValueError:
        return None
    return found
