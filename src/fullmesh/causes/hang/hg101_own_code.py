"""A rank has not entered a collective: its own code is still running

A collective begins only when all ranks of its group have entered it. This rank's main thread still
runs the user's code, at the line in the finding. All other ranks wait for it.

**Prove:** py-spy dump --pid PID on that rank's node, twice, a few seconds apart

**Fix:** Correct the line: it has an endless loop, a file or server without a timeout, or work that only this rank has
(`if rank == 0:`). If it takes that long on purpose, raise the timeout of the process group.

**Source:** recorded from Gloo jobs with torch 2.13
"""

from __future__ import annotations

from collections.abc import Iterator

from fullmesh.causes.engine import Explains
from fullmesh.causes.hang.common import has_other_ranks, is_waiting_for
from fullmesh.causes.hang.job import HangCause, HangFinding, ObservedJob
from fullmesh.causes.hang.late import IN_TIME, LateMessage, find_late_ranks
from fullmesh.causes.hang.places import ActivityKind


def find_busy_ranks(job: ObservedJob) -> Iterator[HangFinding]:
    """Find late ranks that run their own code."""
    return find_late_ranks(
        job,
        CAUSE,
        ActivityKind.RUNNING,
        LateMessage(
            "is still {busy}{at}",
            "are still {busy}{at}",
            IN_TIME,
            "check that line for an endless loop, or for work that only this rank does",
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
