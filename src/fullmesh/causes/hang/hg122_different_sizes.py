"""Ranks give tensors of different sizes to a collective

NCCL waits for bytes that never arrive. Gloo aborts the rank that receives more than it expects, and
the other rank waits. Only the number of elements matters, not the shape.

**Prove:** print the tensor's shape on each rank before the line in the finding

**Fix:** Pad the tensors, drop the last batch (drop_last=True), or send the sizes first
(all_gather_object).

**Source:** recorded from Gloo jobs with torch 2.13
"""

from __future__ import annotations

from collections.abc import Iterator

from fullmesh.causes.engine import Explains
from fullmesh.causes.hang.common import is_same_group
from fullmesh.causes.hang.differences import find_differences, get_entry_size
from fullmesh.causes.hang.job import HangCause, HangFinding, ObservedJob
from fullmesh.causes.hang.late import LATE


def find_different_sizes(job: ObservedJob) -> Iterator[HangFinding]:
    """Find ranks whose collectives with the same number in a group differ in their sizes."""
    return find_differences(
        job,
        CAUSE,
        get_entry_size,
        "give tensors of different sizes to",
        "the same size on every rank: pad, drop the last batch (drop_last=True), or send the sizes first",
    )


CAUSE = HangCause(
    "HG-122",
    __doc__,
    find=find_different_sizes,
    weight=89,
    explains=(
        Explains(("HG-131", "HG-132", "HG-134", "HG-135")),
        Explains(("HG-124", "HG-161", *LATE), is_same_group),
    ),
)
