"""A rank has not entered a collective: it waits for a file lock that another process holds

The main thread waits in flock() or fcntl() for a lock on a file. The finding names the file, and
the process that holds the lock with its command and its state. If no process of the node holds it,
another node does (NFS), or the server is silent.

**Prove:** cat /proc/locks && cat /proc/PID/wchan (a line with -> waits, and the line before it holds the lock)

**Fix:** End the process that holds the lock, or the reason why it does not go on. Lock a file
with a deadline (`fcntl.LOCK_NB` in a loop), and hold no lock during a collective.

**Source:** real processes that hang in each system call (tests/unit/test_hang_wait.py)
"""

from __future__ import annotations

from collections.abc import Iterator

from fullmesh.causes.engine import Explains
from fullmesh.causes.hang.common import has_other_ranks, is_waiting_for
from fullmesh.causes.hang.job import HangCause, HangFinding, ObservedJob
from fullmesh.causes.hang.late import LateMessage, find_late_ranks
from fullmesh.causes.hang.places import ActivityKind


def find_held_locks(job: ObservedJob) -> Iterator[HangFinding]:
    """Find late ranks that wait for a file lock."""
    return find_late_ranks(
        job,
        CAUSE,
        ActivityKind.HELD_LOCK,
        LateMessage(
            "waits for {what}{at}",
            "wait for {what}{at}",
            "the process that holds the lock releases it",
            "on {host}: check the process that holds the lock: it is stopped, or waits itself. No rank may hold a lock "
            "while it waits in a collective",
        ),
    )


CAUSE = HangCause(
    "HG-115",
    __doc__,
    find=find_held_locks,
    weight=62,
    explains=(
        Explains(("HG-161",), is_waiting_for),
        Explains(("HG-141", "HG-142"), has_other_ranks),
    ),
)
