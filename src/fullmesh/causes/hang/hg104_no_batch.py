"""A rank has not entered a collective: it waits for its DataLoader's workers

The main thread waits for a batch, and the DataLoader's worker processes deliver none. They read
from slow storage, one has died, or one hangs in a lock that it inherited by fork.

**Prove:** py-spy dump --pid PID for the rank's child processes, and dmesg | grep -i oom

**Fix:** Set DataLoader(timeout=60) to get an error that names the worker. Enlarge /dev/shm if it is
full. If libraries with threads run before the fork, set multiprocessing_context='spawn'.

**Source:** recorded from Gloo jobs with torch 2.13
"""

from __future__ import annotations

from collections.abc import Iterator

from fullmesh.causes.engine import Explains
from fullmesh.causes.hang.common import has_other_ranks, is_waiting_for
from fullmesh.causes.hang.job import HangCause, HangFinding, ObservedJob
from fullmesh.causes.hang.late import LateMessage, find_late_ranks
from fullmesh.causes.hang.places import ActivityKind


def find_loader_waits(job: ObservedJob) -> Iterator[HangFinding]:
    """Find late ranks that wait for a batch."""
    return find_late_ranks(
        job,
        CAUSE,
        ActivityKind.LOADER,
        LateMessage(
            "gets no batch from its DataLoader's workers{at}",
            "get no batch from their DataLoaders' workers{at}",
            "a batch that arrives in time",
            "check the workers of that rank (py-spy dump --pid of its children) for a slow file, a dead worker or "
            "too little memory in /dev/shm. DataLoader(timeout=60) names the worker",
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
