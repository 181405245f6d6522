"""A process group is used with a rank that is not in it

A rank outside a group has rank -1 in it. torch raises (`Global rank 2 is not part of group`,
`Invalid process group specified`), or warns and returns at once (`which does not belong to the
given group`). The group's own ranks wait.

**Prove:** print(torch.distributed.get_process_group_ranks(group)) on a rank that is in it

**Fix:** Call the group's collectives on its own ranks only. src and dst are ranks in the job, not
in the group.

**Source:** recorded from Gloo jobs with torch 2.13
"""

from __future__ import annotations

from collections.abc import Iterator

from fullmesh.causes.engine import Explains
from fullmesh.causes.hang.common import NO_MEMBER, is_waiting_for
from fullmesh.causes.hang.job import HangCause, HangFinding, ObservedJob, format_ranks
from fullmesh.causes.hang.places import find_user_location


def find_foreign_calls(job: ObservedJob) -> Iterator[HangFinding]:
    """Find calls of a group's collectives by, or with, a rank outside the group."""
    together: dict[str, list[int]] = {}
    for rank, one in sorted(job.now.ranks.items()):
        if one["raised"] and NO_MEMBER.search(one["raised"]["text"]):
            together.setdefault(find_user_location(one["raised"]["frames"]), []).append(rank)
    for place, here in together.items():
        raised = job.now.ranks[here[0]]["raised"]
        text = raised["text"].splitlines()[0] if raised else ""
        behind = sorted({wait.rank for rank in here for wait in job.lacking.get(rank, [])})
        others = (
            f", while {format_ranks(behind)} wait{'' if len(behind) > 1 else 's'}" if behind else ""
        )
        at = f" at {place}" if place else ""
        yield HangFinding(
            CAUSE.code,
            f"{format_ranks(here)} used a process group with a rank that is not in it{at}{others}: {text}",
            ranks=tuple(here),
            hosts=job.now.hosts(here),
            place=place,
            waiting=tuple(behind),
            seen=text,
            expected="torch.distributed.get_rank(group) is not -1 for the caller, and src and dst are ranks of the "
            "job that are in the group",
            fix="`if rank in torch.distributed.get_process_group_ranks(group):` around the group's calls. src and "
            "dst are numbers in the job, group_src and group_dst in the group",
        )


CAUSE = HangCause(
    "HG-143",
    __doc__,
    find=find_foreign_calls,
    weight=95,
    explains=(
        Explains(("HG-134", "HG-135", "HG-164")),
        Explains(("HG-141", "HG-142", "HG-161"), is_waiting_for),
    ),
)
