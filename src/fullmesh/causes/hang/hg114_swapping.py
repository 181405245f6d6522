"""A rank has not entered a collective: its memory must be read back from swap

The node has too little memory, and the kernel moved a part of the rank's memory to swap. The rank
reads it back thousands of times more slowly than from memory, mostly in state D. Between two
samples it read 50 pages a second or more (majflt) while some of its memory was in swap (VmSwap).

**Prove:** grep VmSwap /proc/PID/status && free -h && vmstat 1 (columns si and so)

**Fix:** Find the process that uses the memory: too many DataLoader workers, a cached data set,
another job. Turn swap off on training nodes, or set MemorySwapMax=0 on the job's unit. The job then
ends with a clear error.

**Source:** a recorded Gloo job in which one value was changed, because no test machine shows this state
"""

from __future__ import annotations

from collections.abc import Iterator

from fullmesh.causes.engine import Explains
from fullmesh.causes.hang.common import has_other_ranks, is_waiting_for
from fullmesh.causes.hang.job import HangCause, HangFinding, ObservedJob
from fullmesh.causes.hang.late import LateMessage, find_late_ranks
from fullmesh.causes.hang.places import ActivityKind


def find_swapping_ranks(job: ObservedJob) -> Iterator[HangFinding]:
    """Find late ranks whose memory is in swap."""
    return find_late_ranks(
        job,
        CAUSE,
        ActivityKind.SWAPPING,
        LateMessage(
            "waits for its own memory, which comes back from swap page by page{at}",
            "wait for their own memory, which comes back from swap page by page{at}",
            "nothing of a rank in swap",
            "on {host}: vmstat 1 (si) and free -h. smem or ps -eo pid,rss,comm --sort -rss shows the "
            "process that uses the "
            "memory. Use fewer DataLoader workers or smaller batches, and run nothing else on the node. With "
            "MemorySwapMax=0 on the job's unit, the job ends instead",
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
