"""A rank has not entered a collective: its process is stopped

SIGSTOP, Ctrl-Z or a debugger stopped the process (state T or t). It cannot answer, so Fullmesh
reads its state from the kernel.

**Prove:** ps -o pid,stat,wchan -p PID && grep TracerPid /proc/PID/status

**Fix:** kill -CONT PID, or leave the debugger.

**Source:** recorded from Gloo jobs with torch 2.13
"""

from __future__ import annotations

from collections.abc import Iterator

from fullmesh.causes.engine import Explains
from fullmesh.causes.hang.common import has_other_ranks, is_waiting_for
from fullmesh.causes.hang.job import HangCause, HangFinding, ObservedJob
from fullmesh.causes.hang.late import LateMessage, find_late_ranks
from fullmesh.causes.hang.places import ActivityKind


def find_stopped_ranks(job: ObservedJob) -> Iterator[HangFinding]:
    """Find late ranks whose process is stopped."""
    return find_late_ranks(
        job,
        CAUSE,
        ActivityKind.STOPPED,
        LateMessage(
            "is stopped by SIGSTOP or a debugger{at}",
            "are stopped by SIGSTOP or a debugger{at}",
            "state R or S",
            "on {host}: kill -CONT {pid} (grep TracerPid /proc/{pid}/status shows a debugger)",
        ),
    )


CAUSE = HangCause(
    "HG-106",
    __doc__,
    find=find_stopped_ranks,
    weight=62,
    explains=(
        Explains(("HG-161",), is_waiting_for),
        Explains(("HG-141", "HG-142"), has_other_ranks),
    ),
)
