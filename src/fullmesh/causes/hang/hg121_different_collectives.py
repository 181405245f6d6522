"""Ranks call different collectives

The n-th collective of a group must be the same call on all ranks. If one rank makes an extra or a
different call, all later calls are shifted. The finding names the first call in which the ranks
differ.

**Prove:** compare the two lines in the finding (TORCH_DISTRIBUTED_DEBUG=DETAIL compares every call,
slowly)

**Fix:** Do not call collectives below `if rank == ...`, or in a loop whose length depends on the
rank's data.

**Source:** recorded from Gloo jobs with torch 2.13
"""

from __future__ import annotations

from collections.abc import Iterator

from fullmesh.causes.engine import Explains
from fullmesh.causes.hang.common import is_same_group
from fullmesh.causes.hang.differences import find_differences, get_entry_kind
from fullmesh.causes.hang.job import HangCause, HangFinding, ObservedJob
from fullmesh.causes.hang.late import LATE


def find_different_collectives(job: ObservedJob) -> Iterator[HangFinding]:
    """Find ranks whose collectives with the same number in a group differ in their calls."""
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
