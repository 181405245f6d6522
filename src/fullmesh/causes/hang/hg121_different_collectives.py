"""ranks call different collectives

What has the same number in a group has to be the same call on all its ranks. Once one rank has
called one more, or another, all that follows is shifted: the first number at which they differ is
where to look.

**Prove:** The two lines that are named; TORCH_DISTRIBUTED_DEBUG=DETAIL compares every call, slowly

**Fix:** No collective below `if rank == ...` or inside a loop whose length depends on the rank's
data.

**Source:** recorded of Gloo jobs with torch 2.13
"""

from __future__ import annotations

from collections.abc import Iterator

from fullmesh.causes.engine import Explains
from fullmesh.causes.hang.common import is_same_group
from fullmesh.causes.hang.differences import find_differences, get_entry_kind
from fullmesh.causes.hang.job import HangCause, HangFinding, ObservedJob
from fullmesh.causes.hang.late import LATE


def find_different_collectives(job: ObservedJob) -> Iterator[HangFinding]:
    """What has one number in a group is one collective, on all ranks. The first difference makes all others."""
    return find_differences(
        job,
        CAUSE,
        get_entry_kind,
        "call different collectives",
        "the same calls in the same order on every rank: look for a collective below `if rank == ...`, or for data "
        "that decides how often one is called",
    )


CAUSE = HangCause(
    "HG-121",
    __doc__,
    find=find_different_collectives,
    weight=90,
    explains=(
        Explains(("HG-131", "HG-132", "HG-134", "HG-135")),
        Explains(("HG-124", "HG-161", *LATE), is_same_group),
    ),
)
