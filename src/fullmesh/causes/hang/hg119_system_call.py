"""A rank has not entered a collective: it sleeps in a system call

The main thread waits in the kernel, and uses no CPU time: for a device (ioctl), a message queue, a
semaphore, a signal, io_uring, or one of several descriptors. The finding names the object, and the
processes that use it as well.

**Prove:** cat /proc/PID/stat /proc/PID/wchan /proc/PID/syscall, twice, a few seconds apart

**Fix:** Check the object that the finding names and the process behind it. For a GPU or another
device, read the kernel's log (`dmesg`).

**Source:** real processes that hang in each system call (tests/unit/test_hang_wait.py)
"""

from __future__ import annotations

from collections.abc import Iterator

from fullmesh.causes.engine import Explains
from fullmesh.causes.hang.common import has_other_ranks, is_waiting_for
from fullmesh.causes.hang.job import HangCause, HangFinding, ObservedJob
from fullmesh.causes.hang.late import LateMessage, find_late_ranks
from fullmesh.causes.hang.places import ActivityKind


def find_call_waits(job: ObservedJob) -> Iterator[HangFinding]:
    """Find late ranks that wait in another system call."""
    return find_late_ranks(
        job,
        CAUSE,
        ActivityKind.CALL,
        LateMessage(
            "waits for {what}{at}",
            "wait for {what}{at}",
            "the call ends",
            "on {host}: check what the finding names, and the last lines of dmesg if it is a device",
        ),
    )


CAUSE = HangCause(
    "HG-119",
    __doc__,
    find=find_call_waits,
    weight=62,
    explains=(
        Explains(("HG-161",), is_waiting_for),
        Explains(("HG-141", "HG-142"), has_other_ranks),
    ),
)
