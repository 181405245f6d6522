"""a rank has not entered a collective: it waits for its DataLoader's workers

The main thread waits for a batch and the DataLoader's worker processes bring none: they read from
something slow, or one has died, or hangs in a lock that it got by fork.

**Prove:** py-spy dump --pid of the rank's children; dmesg | grep -i oom

**Fix:** DataLoader(timeout=60) turns the wait into an error that names the worker; more memory in
/dev/shm; multiprocessing_context='spawn' where libraries with threads are used before the fork.

**Source:** recorded of Gloo jobs with torch 2.13
"""

from __future__ import annotations

from collections.abc import Iterator

from fullmesh.causes.engine import Explains
from fullmesh.causes.hang.common import has_other_ranks, is_waiting_for
from fullmesh.causes.hang.job import HangCause, HangFinding, ObservedJob
from fullmesh.causes.hang.late import LateMessage, find_late_ranks
from fullmesh.causes.hang.places import ActivityKind


def find_loader_waits(job: ObservedJob) -> Iterator[HangFinding]:
    """Every rank comes to the collective that the others are in."""
    return find_late_ranks(
        job,
        CAUSE,
        ActivityKind.LOADER,
        LateMessage(
            "gets no batch from its DataLoader's workers{at}",
            "get no batch from their DataLoaders' workers{at}",
            "a batch comes in time",
            "look at the workers of that rank (py-spy dump --pid of its children): a slow file, a dead "
            "worker, too little "
            "memory in /dev/shm; DataLoader(timeout=60) names it",
        ),
    )


CAUSE = HangCause(
    "HG-104",
    __doc__,
    find=find_loader_waits,
    weight=62,
    explains=(
        Explains(("HG-161",), is_waiting_for),
        Explains(("HG-141", "HG-142"), has_other_ranks),
    ),
)
