"""A rank reached the end of its program before the others

A rank ran out of data and left the loop, and the other ranks wait for it in the next step. With
Gloo they get `Connection closed by peer` when its process ends. With NCCL, or if a thread keeps the
process alive, they wait until the timeout.

**Prove:** print the number of batches on each rank

**Fix:** Use DistributedSampler(drop_last=True) or equal shards. For uneven data, use
torch.distributed.algorithms.join.Join([model]).

**Source:** recorded from Gloo jobs with torch 2.13
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator

from fullmesh.causes.engine import Explains
from fullmesh.causes.hang.common import is_waiting_for
from fullmesh.causes.hang.ended import (
    complete_finding,
    describe_waiting,
    find_affected_ranks,
    format_named_ranks,
    group_alike_ranks,
)
from fullmesh.causes.hang.job import HangCause, HangFinding, ObservedJob
from fullmesh.causes.hang.places import ActivityKind
from fullmesh.observed.hang import Rank


def find_early_exits(job: ObservedJob) -> Iterator[HangFinding]:
    """Find ranks that ended while others still wait for them."""

    def how(one: Rank) -> Hashable:
        done = one["process"] == "gone" and one["exit_code"] == 0
        ended = done or job.now.doing(one["rank"]).kind is ActivityKind.ENDED
        return (done, len(one["entries"]) and one["entries"][-1]["number"]) if ended else None

    for one, here in group_alike_ranks(job, lambda one: None if one["raised"] else how(one)):
        if not find_affected_ranks(job, here):
            continue
        done = one["process"] == "gone"
        verb = "have" if len(here) > 1 else "has"
        found = HangFinding(
            CAUSE.code,
            f"{format_named_ranks(job, here)} {verb} come to the end of the program, while "
            f"{describe_waiting(job, here)}",
            seen=_describe_clean_exit(one) if done else job.now.doing(here[0]).seen,
            expected="all ranks make the same number of steps",
            fix="ranks have data for different numbers of steps: DistributedSampler(drop_last=True), `with "
            "torch.distributed.algorithms.join.Join([model]):`, or stop all ranks after the fewest steps",
        )
        yield complete_finding(job, here, found)


def _describe_clean_exit(one: Rank) -> str:
    """Return the evidence that a process ended without an error."""
    return "exit code 0" + "".join(f", since {lost['why']}" for lost in one["missing"][:1])


CAUSE = HangCause(
    "HG-131",
    __doc__,
    find=find_early_exits,
    weight=84,
    explains=(
        Explains(("HG-134", "HG-135", "HG-164")),
        Explains(("HG-141", "HG-142", "HG-161"), is_waiting_for),
    ),
)
