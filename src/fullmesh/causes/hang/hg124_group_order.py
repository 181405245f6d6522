"""Two groups are entered in opposite order

Two groups share ranks. One rank is in the first group's collective and waits for another rank. That
rank is in the second group's collective and waits for the first. Tensor and pipeline parallelism
use such groups.

**Prove:** compare the two lines in the finding

**Fix:** Call the groups' collectives in the same order on all ranks. With NCCL this includes
asynchronous ones.

**Source:** recorded from Gloo jobs with torch 2.13
"""

from __future__ import annotations

from collections.abc import Iterator

from fullmesh.causes.hang.common import find_call_location
from fullmesh.causes.hang.job import (
    CollectiveWait,
    HangCause,
    HangFinding,
    ObservedJob,
    format_collective,
    format_ranks,
)


def _find_wait_cycle(job: ObservedJob) -> list[CollectiveWait]:
    """Find a circle of ranks that wait for each other in different groups, or []."""
    after: dict[int, CollectiveWait] = {}
    for rank, waits in sorted(job.waiting.items()):
        for wait in waits:
            if any(other in job.waiting for other in wait.lacks):
                after.setdefault(rank, wait)
    done: set[int] = set()
    for start in after:
        path: list[int] = []
        rank = start
        while rank in after and rank not in done:
            done.add(rank)
            path.append(rank)
            rank = next(other for other in after[rank].lacks if other in job.waiting)
        if rank in path:
            circle = [after[one] for one in path[path.index(rank) :]]
            if len({wait.entry["group"] for wait in circle}) > 1:
                return circle
    return []


def find_group_order(job: ObservedJob) -> Iterator[HangFinding]:
    """Find ranks that entered shared groups in different orders."""
    circle = _find_wait_cycle(job)
    if not circle:
        return
    places = {wait.rank: find_call_location(job, wait.rank, wait.entry) for wait in circle}
    parts = [
        f"{job.now.named(wait.rank)} is in {format_collective(wait.entry)}"
        + (f" at {places[wait.rank]}" if places[wait.rank] else "")
        for wait in circle
    ]
    first = circle[0]
    involved = tuple(sorted(wait.rank for wait in circle))
    yield HangFinding(
        CAUSE.code,
        f"{format_ranks(involved)} entered two groups in opposite order and wait for each other: {', '.join(parts)}",
        ranks=involved,
        hosts=job.now.hosts(involved),
        group=first.entry["group"],
        number=first.entry["number"],
        kind=first.entry["kind"],
        place=places[first.rank],
        waiting=involved,
        seen="; ".join(
            f"rank {wait.rank} waits in group {wait.entry['desc'] or wait.entry['group']}"
            for wait in circle
        ),
        expected="one order of the groups' collectives on all ranks",
        fix="call the groups' collectives in one order on every rank, also those of backward hooks and of other "
        "threads. With async_op, wait for the first before you call the second",
    )


CAUSE = HangCause("HG-124", __doc__, find=find_group_order)
