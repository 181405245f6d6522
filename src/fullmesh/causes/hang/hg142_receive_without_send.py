"""A rank receives, and no rank sends

A receive waits forever if the other rank never sends, or sends with another tag, in another group,
or to another rank.

**Prove:** py-spy dump --pid PID on that rank's node, twice, a few seconds apart

**Fix:** Use the same pair, tag and group on both sides, in the same order (see HG-141).

**Source:** recorded from Gloo jobs with torch 2.13
"""

from __future__ import annotations

from collections.abc import Iterator

from fullmesh.causes.engine import Explains
from fullmesh.causes.hang.common import has_same_ranks
from fullmesh.causes.hang.job import HangCause, HangFinding, ObservedJob
from fullmesh.causes.hang.passing import find_unmatched


def find_unmatched_receives(job: ObservedJob) -> Iterator[HangFinding]:
    """Find receives without a send."""
    return find_unmatched(job, CAUSE, "recv", "does not send")


CAUSE = HangCause(
    "HG-142",
    __doc__,
    find=find_unmatched_receives,
    weight=50,
    explains=(
        Explains(("HG-161",), has_same_ranks),
        Explains(("HG-164",)),
    ),
)
