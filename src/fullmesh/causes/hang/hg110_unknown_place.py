"""A rank has not entered a collective, and its place in the code is not known

The record shows that the rank has not reached the collective. Only a stack of its main thread shows
its activity, and a dump of the Flight Recorder has none.

**Prove:** py-spy dump --pid PID on that rank's node, twice, a few seconds apart, or ./fullmesh hang -i INVENTORY while
the job hangs

**Fix:** Correct the code at the line that the stack shows.

**Source:** recorded from Gloo jobs with torch 2.13
"""

from __future__ import annotations

from collections.abc import Iterator

from fullmesh.causes.engine import Explains
from fullmesh.causes.hang.common import has_other_ranks, is_waiting_for
from fullmesh.causes.hang.job import HangCause, HangFinding, ObservedJob
from fullmesh.causes.hang.late import LateMessage, find_late_ranks
from fullmesh.causes.hang.places import ActivityKind


def find_unplaced_ranks(job: ObservedJob) -> Iterator[HangFinding]:
    """Find late ranks whose activity is not known."""
    return find_late_ranks(
        job,
        CAUSE,
        ActivityKind.UNKNOWN,
        LateMessage(
            "has not come to it, and its place in the code is not known",
            "have not come to it, and their place in the code is not known",
            "a Python stack of it",
            "on its node: py-spy dump --pid PID",
        ),
    )


CAUSE = HangCause(
    "HG-110",
    __doc__,
    find=find_unplaced_ranks,
    weight=62,
    explains=(
        Explains(("HG-161",), is_waiting_for),
        Explains(("HG-141", "HG-142"), has_other_ranks),
    ),
    is_certain=False,
)
