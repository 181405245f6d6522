"""A rank sends, and no rank receives

A send of more than a few bytes returns only when the other rank receives it. That rank is at
another line, or receives with another tag, in another group, or from another rank.

**Prove:** py-spy dump --pid PID on that rank's node, twice, a few seconds apart

**Fix:** Use the same pair, tag and group on both sides, in the same order. If both sides send, use
batch_isend_irecv.

**Source:** recorded from Gloo jobs with torch 2.13
"""

from __future__ import annotations

from collections.abc import Iterator

from fullmesh.causes.engine import Explains
from fullmesh.causes.hang.common import has_same_ranks
from fullmesh.causes.hang.job import HangCause, HangFinding, ObservedJob
from fullmesh.causes.hang.passing import find_unmatched


def find_unmatched_sends(job: ObservedJob) -> Iterator[HangFinding]:
    """Find sends without a receive."""
    return find_unmatched(job, CAUSE, "send", "does not receive")


CAUSE = HangCause(
    "HG-141",
    __doc__,
    find=find_unmatched_sends,
    weight=51,
    explains=(
        Explains(("HG-161",), has_same_ranks),
        Explains(("HG-164",)),
    ),
)
