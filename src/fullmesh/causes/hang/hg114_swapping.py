"""a rank has not entered a collective: its memory comes back from swap

The node has too little memory, and the kernel has put some of the rank's into swap. Whatever it
touches has to be read back, thousands of times more slowly than memory is; the process is mostly in
state D. Between two looks a disk brought it 50 pages a second or more (majflt), while some of it
lay in swap (VmSwap).

**Prove:** grep VmSwap /proc/PID/status; vmstat 1 (columns si and so); free -h

**Fix:** Find who has the memory: more DataLoader workers than thought, a cached data set, another
job. Training nodes do well without swap, or with MemorySwapMax=0 on the job's unit: then it ends
with a name.

**Source:** a recorded Gloo job, with this one thing changed: no machine here can make it
"""

from __future__ import annotations

from collections.abc import Iterator

from fullmesh.causes.engine import Explains
from fullmesh.causes.hang.common import has_other_ranks, is_waiting_for
from fullmesh.causes.hang.job import HangCause, HangFinding, ObservedJob
from fullmesh.causes.hang.late import LateMessage, find_late_ranks
from fullmesh.causes.hang.places import ActivityKind


def find_swapping_ranks(job: ObservedJob) -> Iterator[HangFinding]:
    """Every rank comes to the collective that the others are in."""
    return find_late_ranks(
        job,
        CAUSE,
        ActivityKind.SWAPPING,
        LateMessage(
            "waits for its own memory, which comes back from swap page by page{at}",
            "wait for their own memory, which comes back from swap page by page{at}",
            "nothing of a rank in swap",
            "on {host}: vmstat 1 (si), free -h; smem or ps -eo pid,rss,comm --sort -rss shows who has "
            "the memory: fewer "
            "DataLoader workers, smaller batches, nobody else on the node; MemorySwapMax=0 for the job's unit ends it "
            "instead",
        ),
    )


CAUSE = HangCause(
    "HG-114",
    __doc__,
    find=find_swapping_ranks,
    weight=62,
    explains=(
        Explains(("HG-161",), is_waiting_for),
        Explains(("HG-141", "HG-142"), has_other_ranks),
    ),
)
