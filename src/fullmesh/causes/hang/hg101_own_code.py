"""a rank has not entered a collective: it is still busy with code of its own

A collective begins when all ranks of its group have entered it. This one has not: its main thread
runs the user's own code at the line that is named, and the others wait there for as long as it
takes.

**Prove:** py-spy dump --pid PID on that rank's node, twice, some seconds apart

**Fix:** Look at the line: a loop that does not end, a file or server that is asked without a
timeout, work that only this rank has (`if rank == 0:`). If it is meant to take so long, give the
process group a longer timeout.

**Source:** recorded of Gloo jobs with torch 2.13
"""

from __future__ import annotations

from collections.abc import Iterator

from fullmesh.causes.engine import Explains
from fullmesh.causes.hang.common import has_other_ranks, is_waiting_for
from fullmesh.causes.hang.job import HangCause, HangFinding, ObservedJob
from fullmesh.causes.hang.late import IN_TIME, LateMessage, find_late_ranks
from fullmesh.causes.hang.places import ActivityKind


def find_busy_ranks(job: ObservedJob) -> Iterator[HangFinding]:
    """Every rank comes to the collective that the others are in."""
    return find_late_ranks(
        job,
        CAUSE,
        ActivityKind.RUNNING,
        LateMessage(
            "is still busy{at}",
            "are still busy{at}",
            IN_TIME,
            "look at that line: a loop that does not end, or work that only this rank does",
        ),
    )


CAUSE = HangCause(
    "HG-101",
    __doc__,
    find=find_busy_ranks,
    weight=62,
    explains=(
        Explains(("HG-161",), is_waiting_for),
        Explains(("HG-141", "HG-142"), has_other_ranks),
    ),
)
