"""Slow, not hung: the other ranks always wait for the same rank

The job continues. In nearly every step, one rank (or all ranks of one node) enters the collectives
later than all others, and the others wait for it. The job is as fast as that rank.

The times are those of the Flight Recorder, up to 256 collectives of each group. They are compared
after the difference of the nodes' clocks is subtracted. A rank is named if it is last far more often
than chance allows, over at least 20 rounds of collectives, and if the others lose at least 10 % of
their time because of it. Steps that vary on all ranks are not a finding, and neither are the stages
of a pipeline, which wait for each other by design.

The reason is measured, if possible: a CPU limit, swap, CPU time that the hypervisor gave away, a GPU
with a reduced clock, with fewer PCIe lanes or with other processes, a queue for the CPUs, Python's
garbage collector, segments that were sent again. Otherwise it is the call in which the rank's main
thread is seen most often: storage, a DataLoader, a lock, a checkpoint, a pause.

**Prove:** py-spy dump --pid PID on that rank's node, twice, a few seconds apart. Compare top, iostat
and nvidia-smi with another node

**Fix:** Remove the difference between its node, or its share of the data, and the others'.

**Source:** recorded from Gloo jobs with torch 2.13 (tests/unit/recorded/hang_slow)
"""

from __future__ import annotations

from collections.abc import Iterator

from fullmesh.causes.engine import Explains
from fullmesh.causes.hang.job import (
    WARNING,
    HangCause,
    HangFinding,
    ObservedJob,
    format_ranks,
)
from fullmesh.causes.hang.lag import SlowRanks, find_lagging_ranks
from fullmesh.causes.hang.progress import find_newest_entries
from fullmesh.causes.hang.slow_reasons import (
    choose_activity,
    describe_computing,
    find_slow_reasons,
)

UNKNOWN = (
    "./fullmesh verify -i INVENTORY compares the nodes. Compare the amount of data of the ranks, and processes, disks "
    "and clocks of the nodes"
)
SHOWN = 3


def has_progressed(job: ObservedJob) -> bool:
    """Return whether a rank entered something since the first sample."""
    was, now = find_newest_entries(job.samples[0]), find_newest_entries(job.now)
    return any(now[rank] > was[rank] for rank in now if rank in was)


def find_slow_ranks(job: ObservedJob) -> Iterator[HangFinding]:
    """Find ranks that the others always wait for while the job continues."""
    if job.before is None or job.waits or not has_progressed(job):
        return
    slow = find_lagging_ranks(job)
    if slow is not None:
        yield _make_slow_finding(job, slow)


def _make_slow_finding(job: ObservedJob, slow: SlowRanks) -> HangFinding:
    now, ranks = job.now, slow.ranks
    one = len(ranks) == 1
    who = now.named(ranks[0]) if one else f"{format_ranks(ranks)} ({', '.join(now.hosts(ranks))})"
    members = now.members[slow.group]
    waiting = tuple(rank for rank in members if rank not in ranks)
    chosen = choose_activity(job, ranks)
    place = chosen[0].place if chosen else ""
    reasons = find_slow_reasons(job, ranks)
    why = reasons[0].text if reasons else f"unknown: {describe_computing(job, ranks[0], place)}"
    desc = now.groups[slow.group] or f"group {slow.group}"
    verb = "waits" if len(waiting) == 1 else "wait"
    return HangFinding(
        CAUSE.code,
        f"the job continues, but {format_ranks(waiting)} {verb} {slow.share:.0%} of the time for {who}. Reason: {why}",
        ranks=ranks,
        hosts=now.hosts(ranks),
        group=slow.group,
        place=place,
        waiting=waiting,
        share=slow.share,
        seen=f"{'it was' if one else 'they were'} last in {slow.last} of {slow.rounds} late rounds, typically"
        f" {_format_seconds(slow.lag)} behind the others, and a round takes {_format_seconds(slow.step)};"
        f" {slow.collectives} collectives of {desc} in"
        f" {slow.seconds:.1f} s" + "".join(f"; also: {reason.text}" for reason in reasons[1:SHOWN]),
        expected="each rank is last about equally often",
        check="" if reasons else UNKNOWN,
        fix=reasons[0].fix
        if reasons
        else "remove the difference between that rank's node and the others, or give the rank less data",
        severity=WARNING,
    )


def _format_seconds(seconds: float) -> str:
    return f"{seconds:.1f} s" if seconds >= 1 else f"{seconds * 1000:.0f} ms"


CAUSE = HangCause(
    "HG-163",
    __doc__,
    find=find_slow_ranks,
    weight=30,
    explains=(Explains(("HG-162",)),),
    severity=WARNING,
)
