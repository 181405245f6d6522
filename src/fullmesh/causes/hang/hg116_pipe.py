"""A rank has not entered a collective: it waits for the other end of a pipe or FIFO

The main thread reads from a pipe or FIFO into which the other end writes nothing, writes to one
that is full, or opens a FIFO that no other process opens. The finding names the process at the
other end. Usually that process has ended, is stopped, or is the rank itself: it kept its own copy
of the other end open, so the end of the data never comes.

**Prove:** ls -l /proc/PID/fd /proc/*/fd 2>/dev/null | grep 'pipe:' && cat /proc/PID/syscall

**Fix:** Start the process at the other end, or end it. Close the ends that a process does not
use after fork. Read the output of a child while it runs (`subprocess.run(capture_output=True)`).

**Source:** real processes that hang in each system call (tests/unit/test_hang_wait.py)
"""

from __future__ import annotations

from collections.abc import Iterator

from fullmesh.causes.engine import Explains
from fullmesh.causes.hang.common import has_other_ranks, is_waiting_for
from fullmesh.causes.hang.job import HangCause, HangFinding, ObservedJob
from fullmesh.causes.hang.late import LateMessage, find_late_ranks
from fullmesh.causes.hang.places import ActivityKind


def find_pipe_waits(job: ObservedJob) -> Iterator[HangFinding]:
    """Find late ranks that wait for a pipe or FIFO."""
    return find_late_ranks(
        job,
        CAUSE,
        ActivityKind.PIPE,
        LateMessage(
            "waits for {what}{at}",
            "wait for {what}{at}",
            "the process at the other end writes, reads or closes",
            "on {host}: check the process at the other end. If there is none, close the copy of that end that this "
            "process holds, or start the process that opens the FIFO",
        ),
    )


CAUSE = HangCause(
    "HG-116",
    __doc__,
    find=find_pipe_waits,
    weight=62,
    explains=(
        Explains(("HG-161",), is_waiting_for),
        Explains(("HG-141", "HG-142"), has_other_ranks),
    ),
)
