"""ranks give tensors of different types to a collective

Elements of different sizes are different numbers of bytes, see HG-122; of the same size they are
added as if they were of the other type, and the result is wrong without a word.

**Prove:** print the tensor's dtype on each rank before the line that is named

**Fix:** One dtype on all ranks: autocast, .half() and checkpoints are the usual reasons.

**Source:** a recorded Gloo job, with this one thing changed: no machine here can make it
"""

from __future__ import annotations

from collections.abc import Iterator

from fullmesh.causes.engine import Explains
from fullmesh.causes.hang.common import is_same_group
from fullmesh.causes.hang.differences import find_differences, get_entry_types
from fullmesh.causes.hang.job import HangCause, HangFinding, ObservedJob
from fullmesh.causes.hang.late import LATE


def find_different_types(job: ObservedJob) -> Iterator[HangFinding]:
    """What has one number in a group is one collective, on all ranks. The first difference makes all others."""
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
