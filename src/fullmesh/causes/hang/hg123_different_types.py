"""Ranks give tensors of different types to a collective

Types of different sizes give different numbers of bytes, so the job hangs or fails as in HG-122.
With types of the same size, the elements are added as the wrong type, and the result is wrong
without an error.

**Prove:** print the tensor's dtype on each rank before the line in the finding

**Fix:** Use one dtype on all ranks. Check autocast, .half() and checkpoints.

**Source:** a recorded Gloo job in which one value was changed, because no test machine shows this state
"""

from __future__ import annotations

from collections.abc import Iterator

from fullmesh.causes.engine import Explains
from fullmesh.causes.hang.common import is_same_group
from fullmesh.causes.hang.differences import find_differences, get_entry_types
from fullmesh.causes.hang.job import HangCause, HangFinding, ObservedJob
from fullmesh.causes.hang.late import LATE


def find_different_types(job: ObservedJob) -> Iterator[HangFinding]:
    """Find ranks whose collectives with the same number in a group differ in their types."""
    return find_differences(
        job,
        CAUSE,
        get_entry_types,
        "give tensors of different types to",
        "the same dtype on every rank: look for autocast, .half() or a checkpoint of another type on one of them",
    )


CAUSE = HangCause(
    "HG-123",
    __doc__,
    find=find_different_types,
    weight=88,
    explains=(
        Explains(("HG-131", "HG-132", "HG-134", "HG-135")),
        Explains(("HG-124", "HG-161", *LATE), is_same_group),
    ),
)
