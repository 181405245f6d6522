"""Not all ranks make a process group

All ranks of the job must call new_group, in the same order, even ranks that are not in the group.
Here some ranks do not call it, and the group's members wait for each other.

**Prove:** py-spy dump --pid PID on that rank's node, twice, a few seconds apart

**Fix:** Move the call out of `if rank ...`.

**Source:** recorded from Gloo jobs with torch 2.13
"""

from __future__ import annotations

from collections.abc import Iterator

from fullmesh.causes.engine import Explains
from fullmesh.causes.hang.common import is_waiting_for
from fullmesh.causes.hang.job import HangCause, HangFinding, ObservedJob, format_ranks
from fullmesh.causes.hang.late import LATE
from fullmesh.causes.hang.passing import has_not_moved
from fullmesh.causes.hang.places import ActivityKind


def find_new_groups(job: ObservedJob) -> Iterator[HangFinding]:
    """Find ranks that make a process group without the others."""
    now = job.now
    here = [
        r for r in now.asked if now.doing(r).kind is ActivityKind.GROUP and has_not_moved(job, r)
    ]
    elsewhere = [r for r in now.asked if r not in here]
    if not here or not elsewhere:
        return
    first = elsewhere[0]
    place = now.place(first)
    at = f" at {place}" if place else ""
    yield HangFinding(
        CAUSE.code,
        f"{format_ranks(here)} make{'' if len(here) > 1 else 's'} a process group at {now.place(here[0])}, and"
        f" {format_ranks(elsewhere)} {'are' if len(elsewhere) > 1 else 'is'} somewhere else{at}",
        ranks=tuple(elsewhere),
        hosts=job.now.hosts(elsewhere),
        place=place,
        waiting=tuple(here),
        seen=f"rank {first}: {now.doing(first).seen}",
        expected="every rank of the job calls new_group for every group, in one order",
        fix="move new_group out of `if rank ...`: all ranks must call it, even ranks outside the group",
    )


CAUSE = HangCause(
    "HG-144",
    __doc__,
    find=find_new_groups,
    weight=70,
    explains=(
        Explains(("HG-161", *LATE), is_waiting_for),
        Explains(("HG-164",)),
    ),
)
