"""A rank has not entered a collective: it waits for a lock or another thread

The main thread waits for a lock, a queue or an event from another thread of the same process. If 2
threads each hold a lock that the other needs, they wait forever. The finding names the lines of
both.

**Prove:** py-spy dump --pid PID on that rank's node, twice, a few seconds apart

**Fix:** Acquire locks in the same order in all threads, and hold none during a join, a queue
operation or a collective.

**Source:** recorded from Gloo jobs with torch 2.13
"""

from __future__ import annotations

from collections.abc import Iterator

from fullmesh.causes.engine import Explains
from fullmesh.causes.hang.common import has_other_ranks, is_waiting_for
from fullmesh.causes.hang.job import HangCause, HangFinding, ObservedJob
from fullmesh.causes.hang.late import LateMessage, find_late_ranks
from fullmesh.causes.hang.places import ActivityKind


def find_lock_waits(job: ObservedJob) -> Iterator[HangFinding]:
    """Find late ranks that wait for a lock or another thread."""
    return find_late_ranks(
        job,
        CAUSE,
        ActivityKind.LOCK,
        LateMessage(
            "waits for a lock or another thread{at}",
            "wait for a lock or another thread{at}",
            "the thread that holds it releases it",
            "check both lines: acquire locks in one order everywhere, and hold none while waiting for another thread",
        ),
    )


CAUSE = HangCause(
    "HG-108",
    __doc__,
    find=find_lock_waits,
    weight=62,
    explains=(
        Explains(("HG-161",), is_waiting_for),
        Explains(("HG-141", "HG-142"), has_other_ranks),
    ),
)
