"""A rank has not entered a collective: it sleeps

The main thread is in time.sleep. It polls for something that does not happen.

**Prove:** py-spy dump --pid PID on that rank's node, twice, a few seconds apart

**Fix:** Add a deadline and an error message to the loop around that line, then fix the event that it waits for.

**Source:** recorded from Gloo jobs with torch 2.13
"""

from __future__ import annotations

from collections.abc import Iterator

from fullmesh.causes.engine import Explains
from fullmesh.causes.hang.common import has_other_ranks, is_waiting_for
from fullmesh.causes.hang.job import HangCause, HangFinding, ObservedJob
from fullmesh.causes.hang.late import LateMessage, find_late_ranks
from fullmesh.causes.hang.places import ActivityKind


def find_sleeping_ranks(job: ObservedJob) -> Iterator[HangFinding]:
    """Find late ranks that sleep."""
    return find_late_ranks(
        job,
        CAUSE,
        ActivityKind.SLEEP,
        LateMessage(
            "sleeps{at}",
            "sleep{at}",
            "no rank sleeps while others wait for it",
            "check the loop around that line: it waits with time.sleep for something that does not happen",
        ),
    )


CAUSE = HangCause(
    "HG-107",
    __doc__,
    find=find_sleeping_ranks,
    weight=62,
    explains=(
        Explains(("HG-161",), is_waiting_for),
        Explains(("HG-141", "HG-142"), has_other_ranks),
    ),
)
