"""a rank has entered a collective, and its GPU has not begun it

A collective on GPUs is queued behind what the rank started before. Where the others' GPUs have
begun it and this one's has not, a kernel in front of it does not end: one of the user's own, or
another group's collective on another stream. States beyond `scheduled` are there with
TORCH_NCCL_ENABLE_TIMING=1 alone.

**Prove:** nvidia-smi (100 % on that GPU with little power); cuda-gdb or py-spy dump --native --pid
PID

**Fix:** CUDA_LAUNCH_BLOCKING=1 on that rank stops at the kernel's own line.

**Source:** a recorded Gloo job, with this one thing changed: no machine here can make it
"""

from __future__ import annotations

from collections.abc import Iterator

from fullmesh.causes.engine import Explains
from fullmesh.causes.hang.common import (
    find_call_location,
    has_other_ranks,
    is_waiting_for,
    list_waiting_ranks,
)
from fullmesh.causes.hang.job import (
    CollectiveWait,
    HangCause,
    HangFinding,
    ObservedJob,
    format_collective,
    format_ranks,
    get_collective_key,
)

# states of an entry with NCCL, where its times are taken (TORCH_NCCL_ENABLE_TIMING=1)
QUEUED, BEGUN = "scheduled", "started"


def find_queued_collectives(job: ObservedJob) -> Iterator[HangFinding]:
    """What some ranks' GPUs have begun the others' begin soon, else something before it keeps them busy."""
    seen: set[tuple[str, int]] = set()
    for wait in job.waits:
        if wait.lacks or wait.entry["state"] != BEGUN or get_collective_key(wait.entry) in seen:
            continue
        seen.add(get_collective_key(wait.entry))
        group, number = get_collective_key(wait.entry)
        entered = {r: of[number] for r, of in job.now.by_number[group].items() if number in of}
        here = sorted(
            r for r, one in entered.items() if one["state"] == QUEUED and not one["retired"]
        )
        if here:
            yield _make_queued_finding(job, wait, here)


def _make_queued_finding(job: ObservedJob, wait: CollectiveWait, here: list[int]) -> HangFinding:
    place = find_call_location(
        job, here[0], job.now.by_number[wait.entry["group"]][here[0]][wait.entry["number"]]
    )
    behind = [rank for rank in list_waiting_ranks(job, wait) if rank not in here]
    who = job.now.named(here[0]) if len(here) == 1 else format_ranks(here)
    has, gpu = ("have", "GPUs have") if len(here) > 1 else ("has", "GPU has")
    return HangFinding(
        CAUSE.code,
        f"{who} {has} entered {format_collective(wait.entry)}{' at ' + place if place else ''}, and the {gpu} not "
        "begun it,"
        f" while {format_ranks(behind)} {'wait' if len(behind) > 1 else 'waits'} in it: an earlier kernel still runs "
        "there",
        ranks=tuple(here),
        hosts=job.now.hosts(here),
        group=wait.entry["group"],
        number=wait.entry["number"],
        kind=wait.entry["kind"],
        place=place,
        waiting=tuple(behind),
        seen=f"{QUEUED} on {format_ranks(here)}, {BEGUN} on {format_ranks(behind)}",
        expected=f"{BEGUN} on all of them",
        fix="what did that rank start on the GPU before? CUDA_LAUNCH_BLOCKING=1 shows the line; a kernel of one's own "
        "that does not end, a collective of another group on another stream; nvidia-smi and Xid on its node",
    )


CAUSE = HangCause(
    "HG-111",
    __doc__,
    find=find_queued_collectives,
    weight=62,
    explains=(
        Explains(("HG-161",), is_waiting_for),
        Explains(("HG-141", "HG-142"), has_other_ranks),
    ),
)
