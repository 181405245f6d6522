"""A rank has entered a collective, and its GPU has not begun it

A GPU runs a collective after all work that the rank queued before it. The other ranks' GPUs have
begun the collective, and this one's has not: an earlier kernel does not end. It is the user's own
kernel, or another group's collective on another stream. torch records such states only with
TORCH_NCCL_ENABLE_TIMING=1.

**Prove:** nvidia-smi (100 % on that GPU with little power), and py-spy dump --native --pid PID

**Fix:** Start the job with CUDA_LAUNCH_BLOCKING=1, which stops at the line of the kernel that does
not end.

**Source:** a recorded Gloo job in which one value was changed, because no test machine shows this state
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

# states of an entry with NCCL, if its times are recorded (TORCH_NCCL_ENABLE_TIMING=1)
QUEUED, BEGUN = "scheduled", "started"


def find_queued_collectives(job: ObservedJob) -> Iterator[HangFinding]:
    """Find ranks whose GPUs have not begun a collective that the others' GPUs have begun."""
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
        f" while {format_ranks(behind)} {'wait' if len(behind) > 1 else 'waits'} in it: an earlier kernel is still "
        "running there",
        ranks=tuple(here),
        hosts=job.now.hosts(here),
        group=wait.entry["group"],
        number=wait.entry["number"],
        kind=wait.entry["kind"],
        place=place,
        waiting=tuple(behind),
        seen=f"{QUEUED} on {format_ranks(here)}, {BEGUN} on {format_ranks(behind)}",
        expected=f"{BEGUN} on all of them",
        check="CUDA_LAUNCH_BLOCKING=1 shows the line of the earlier work that does not end. On its node: nvidia-smi, "
        "and dmesg | grep -i xid",
        fix="correct the kernel at that line, or use one order for the collectives of different groups and streams",
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
