"""A rank has not entered a collective: it waits for a child process

The main thread waits in wait4() or waitid() for a process that it started. The finding names that
process and its own state: whether it computes, is stopped, sleeps, or waits for a further process.

**Prove:** ps --forest -o pid,stat,wchan:32,args -g PID

**Fix:** Check the named child process. Start it with a timeout
(`subprocess.run(..., timeout=600)`), and not between two collectives.

**Source:** real processes that hang in each system call (tests/unit/test_hang_wait.py)
"""

from __future__ import annotations

from collections.abc import Iterator

from fullmesh.causes.engine import Explains
from fullmesh.causes.hang.common import has_other_ranks, is_waiting_for
from fullmesh.causes.hang.job import HangCause, HangFinding, ObservedJob
from fullmesh.causes.hang.late import LateMessage, find_late_ranks
from fullmesh.causes.hang.places import ActivityKind


def find_child_waits(job: ObservedJob) -> Iterator[HangFinding]:
    """Find late ranks that wait for a child process."""
    return find_late_ranks(
        job,
        CAUSE,
        ActivityKind.CHILD,
        LateMessage(
            "waits for {what}{at}",
            "wait for {what}{at}",
            "the child process ends",
            "on {host}: check the child process that the finding names. Start it with a timeout",
        ),
    )


CAUSE = HangCause(
    "HG-118",
    __doc__,
    find=find_child_waits,
    weight=62,
    explains=(
        Explains(("HG-161",), is_waiting_for),
        Explains(("HG-141", "HG-142"), has_other_ranks),
    ),
)
