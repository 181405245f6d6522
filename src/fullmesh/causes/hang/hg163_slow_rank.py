"""Slow, not hung: one rank is always the last

In nearly every sample, all other ranks wait for the same rank and continue when it arrives. The job
is as fast as that rank.

**Prove:** py-spy dump --pid PID on that rank's node, twice, a few seconds apart. Compare top, iostat
and nvidia-smi with another node

**Fix:** Remove the difference between its node, or its share of the data, and the others'.

**Source:** recorded from Gloo jobs with torch 2.13
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from fullmesh.causes.engine import Explains
from fullmesh.causes.hang.job import (
    WARNING,
    HangCause,
    HangFinding,
    JobSample,
    ObservedJob,
    has_record,
)

SAMPLES = 4  # that have to show the same rank last
MOSTLY = 0.75


def count_waiters_by_rank(sample: JobSample) -> dict[int, int]:
    """Map each rank to the number of other ranks that wait for it now, for any time."""
    return dict(
        Counter(
            rank
            for wait in ObservedJob([sample]).waits
            for rank in wait.lacks
            if has_record(sample.ranks[rank])
        )
        if all(rank in sample.ranks for rank in range(sample.world))
        else {}
    )


def find_slow_ranks(job: ObservedJob) -> Iterator[HangFinding]:
    """Find a rank that the others always wait for while the job continues."""
    if len(job.samples) < SAMPLES or job.waits:
        return
    last = [one for one in map(count_waiters_by_rank, job.samples) if one]
    alone = Counter(next(iter(one)) for one in last if len(one) == 1)
    if not alone:
        return
    rank, times = min(alone.items(), key=lambda one: (-one[1], one[0]))
    if times < SAMPLES or times < MOSTLY * len(last) or times * 2 < len(job.samples):
        return
    late = [one for one in job.samples if rank in count_waiters_by_rank(one)]
    counts = Counter((one.place(rank), one.doing(rank).seen) for one in late)
    (place, what), _ = min(counts.items(), key=lambda one: (-one[1], one[0]))
    yield HangFinding(
        CAUSE.code,
        f"the job continues, and {job.now.named(rank)} is the last in {times} of {len(job.samples)} queries. It is then"
        f" mostly at {place or 'a place that is not known'}",
        ranks=(rank,),
        hosts=(job.now.host(rank),),
        place=place,
        seen=what,
        expected="different ranks are last at different times",
        check="./fullmesh verify -i INVENTORY compares the nodes. Compare processes, disks, and clocks of CPU and GPU",
        fix="remove the difference between that rank's node and the others, or give the rank less data",
        severity=WARNING,
    )


CAUSE = HangCause(
    "HG-163",
    __doc__,
    find=find_slow_ranks,
    weight=30,
    explains=(Explains(("HG-162",)),),
    severity=WARNING,
)
