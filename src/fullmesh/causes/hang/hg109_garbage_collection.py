"""A rank has not entered a collective: it collects garbage

Python's cyclic garbage collector runs at different times on each rank. With millions of objects it
takes seconds, and all ranks wait.

**Prove:** py-spy dump --native --pid PID shows gc_collect_main

**Fix:** Call gc.freeze() after the model and the data are loaded. Or call gc.disable(), and
gc.collect() on all ranks in the same step.

**Source:** a recorded Gloo job in which one value was changed, because no test machine shows this state
"""

from __future__ import annotations

from collections.abc import Iterator

from fullmesh.causes.engine import Explains
from fullmesh.causes.hang.common import has_other_ranks, is_waiting_for
from fullmesh.causes.hang.job import HangCause, HangFinding, ObservedJob
from fullmesh.causes.hang.late import LateMessage, find_late_ranks
from fullmesh.causes.hang.places import ActivityKind


def find_collecting_ranks(job: ObservedJob) -> Iterator[HangFinding]:
    """Find late ranks that collect garbage."""
    return find_late_ranks(
        job,
        CAUSE,
        ActivityKind.GC,
        LateMessage(
            "is collecting garbage{at}",
            "are collecting garbage{at}",
            "collections of a few milliseconds",
            "call gc.freeze() after the start, or gc.disable() and gc.collect() on all ranks in the same step",
        ),
    )


CAUSE = HangCause(
    "HG-109",
    __doc__,
    find=find_collecting_ranks,
    weight=62,
    explains=(
        Explains(("HG-161",), is_waiting_for),
        Explains(("HG-141", "HG-142"), has_other_ranks),
    ),
)
