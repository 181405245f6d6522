"""Nothing is wrong: every rank continues

Between two samples every rank entered more collectives. The job is making progress, although a step may take
long.

**Prove:** take new records and run ./fullmesh explain-log on them

**Fix:** No action is needed.

**Source:** recorded from Gloo jobs with torch 2.13
"""

from __future__ import annotations

from collections.abc import Iterator

from fullmesh.causes.hang.job import NOTE, SECOND, HangCause, HangFinding, ObservedJob
from fullmesh.causes.hang.progress import find_newest_entries


def find_all_progress(job: ObservedJob) -> Iterator[HangFinding]:
    """Find a job in which every rank entered something since the last sample."""
    before, now = job.before, job.now
    if before is None or job.waits or not now.asked:
        return
    was, found = find_newest_entries(before), find_newest_entries(now)
    steps = [found[rank] - was[rank] for rank in now.asked if rank in was]
    if len(steps) < now.world or min(steps) <= 0:
        return
    first = now.asked[0]
    seconds = (now.ranks[first]["taken_ns"] - before.ranks[first]["taken_ns"]) / SECOND
    yield HangFinding(
        CAUSE.code,
        f"nothing is wrong: every rank continued, by {min(steps)} collectives or more in {seconds:.1f} s",
        ranks=tuple(now.asked),
        seen=f"{min(steps)} to {max(steps)} collectives",
        severity=NOTE,
        expected="progress on every rank",
        check="if it is slower than you expect, no rank is much later than the others: compare with an earlier run",
        fix="no action is needed",
    )


CAUSE = HangCause("HG-162", __doc__, find=find_all_progress, severity=NOTE)
