"""Resolve names for a diagnosis: this node's own, the master's, those of the plan, and reverse names.

A silent name server delays an answer by seconds, and a login takes long too. So a separate process runs both during the
probe, and the last call on the node returns the answers.
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
from typing import TYPE_CHECKING

from ..detach import run_detached, run_directory
from ..foreign_text import parse_foreign_json
from ..lease import end_with_lease, has_lease
from . import net
from .lookup import observe_names

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from ..schema.ladder import DeferredLookups, LadderNodeParams, ResolvedNames
    from ..schema.survey import ParallelLookups, ReverseName

    Todo = list[tuple[str, Callable[[], Any], Any]]

NAME_SECONDS = 2.5  # limit of the delay by a silent name server (slower ones count as silent)
# Ends before the limit above. When both ended at the same moment, this one's result was lost (seen once in about 100
# diagnoses of a silent name server).
REVERSE_SECONDS = 2.0
REVERSED_MOST = 64
LIFE_SECONDS = 20  # far beyond all deadlines of the lookups: a hung process must not block the run
ANSWERS = "names.json"


def look_up_reverse_names(peers: list[str]) -> dict[str, ReverseName | None]:
    """Resolve the names of all peers at once. None for those without an answer in time."""
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
    """Return the lookups for a survey.

    Args:
        peers: addresses of the other nodes.
        master: MASTER_ADDR of the jobs' environment, or "".
    """
    return [
        # whichever limit comes first: there was no answer
        ("reverse", lambda: look_up_reverse_names(peers), dict.fromkeys(peers[:REVERSED_MOST])),
        ("own_answers", lambda: net.look_up_addresses(socket.gethostname(), REVERSE_SECONDS), []),
        ("master_answers", lambda: net.look_up_addresses(master, REVERSE_SECONDS), []),
    ]


def start_name_lookups(
    run: str, base: str, survey: Callable[[], ParallelLookups], want: LadderNodeParams
) -> None:
    """Resolve names in a separate process, which holds a lock on its answers until they are complete.

    Args:
        run: of the diagnosis. Its directory exists.
        base: the folder with the directories of runs.
        survey: makes the lookups of :func:`list_lookups`, and logs in.
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
        plan: list[ResolvedNames] = []
        thread = threading.Thread(
            target=lambda: plan.append(observe_names(want["hosts"], want["address"]))
        )
        thread.start()
        late = survey()
        thread.join()
        found: DeferredLookups = {"survey": late, "names": plan[0]}
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
    """Wait for the answers and return them. None if there was no lookup or no answer. The lookups have deadlines."""
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
