"""Ranks that have not entered a collective in which others wait, and their activity instead."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from fullmesh.causes.hang.common import (
    describe_gpu_load,
    describe_last_entry,
    describe_ras_state,
    find_call_location,
    find_missed_collective,
    is_rank_observable,
    is_swapping,
    is_throttled,
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
from fullmesh.causes.hang.passing import find_unmatched_ranks
from fullmesh.causes.hang.places import FUSE, NFS, ActivityKind, ThreadActivity, find_other_threads

IN_TIME = "every rank enters it at about the same time"
LATE = tuple(f"HG-1{number:02}" for number in range(1, 15))
# A rank that waits in something that the recorder does not keep is in the user's code as far as others are concerned.
ALSO = {ActivityKind.COLLECTIVE: ActivityKind.RUNNING, ActivityKind.PASSING: ActivityKind.RUNNING}
# Activities that a cgroup limit slows down.
SLOWED = (
    ActivityKind.RUNNING,
    ActivityKind.LOADER,
    ActivityKind.CHECKPOINT,
    ActivityKind.GC,
    ActivityKind.UNKNOWN,
)
# A process that waits for a page of its own is in state D, or between two of them.
SWAPPED = (*SLOWED, ActivityKind.DISK)
# Families of their own tell of these.
ELSEWHERE = (ActivityKind.ENDED, ActivityKind.GROUP)


@dataclass(frozen=True)
class LateMessage:
    """The message about ranks with one kind of activity: its text for one and for several ranks, and the fix."""

    one: str
    more: str
    expected: str
    fix: str


def describe_disk_wait(doing: ThreadActivity) -> str:
    """Describe the storage that a rank in the kernel waits for: ``state D in nfs_wait_bit_killable``."""
    words = doing.seen.partition(" in ")[2].split()
    if words and FUSE.match(words[0]):
        return "a file system in user space (FUSE)"
    return "an NFS server" if words and NFS.match(words[0]) else "a disk or file system"


def group_late_ranks(job: ObservedJob) -> list[tuple[ActivityKind, list[int]]]:
    """Group the ranks that others wait for by activity and line."""
    together: dict[tuple[ActivityKind, str, tuple[str, int]], list[int]] = {}
    alone = find_unmatched_ranks(job)
    for rank in job.late:
        if rank not in job.now.ranks:
            continue
        doing = job.now.doing(rank)
        kind = ALSO.get(doing.kind, doing.kind)
        kind = ActivityKind.THROTTLED if kind in SLOWED and is_throttled(job, rank) else kind
        kind = ActivityKind.SWAPPING if kind in SWAPPED and is_swapping(job, rank) else kind
        there = is_rank_observable(job, rank) or kind in (
            ActivityKind.THROTTLED,
            ActivityKind.SWAPPING,
        )
        if not there or doing.kind in ELSEWHERE or rank in alone:
            continue
        # At one place are ranks that run the same line; of an idle one the line says nothing.
        together.setdefault(
            (kind, doing.place, get_collective_key(find_missed_collective(job, rank).entry)), []
        ).append(rank)
    return [(kind, found) for (kind, _, _), found in together.items()]


def find_late_ranks(
    job: ObservedJob, cause: HangCause, kind: ActivityKind, message: LateMessage
) -> Iterator[HangFinding]:
    """Yield a finding for the ranks that are late because of one kind of activity."""
    for found_kind, found in job.get_once(group_late_ranks):
        if found_kind is kind:
            yield _make_late_finding(job, cause, kind, message, found)


def _make_late_finding(
    job: ObservedJob, cause: HangCause, kind: ActivityKind, message: LateMessage, found: list[int]
) -> HangFinding:
    now = job.now
    first = found[0]
    wait, doing, rank = find_missed_collective(job, first), now.doing(first), now.ranks[first]
    names = {
        "at": f" at {doing.place}" if doing.place else "",
        "what": describe_disk_wait(doing) if kind is ActivityKind.DISK else "",
        "host": rank["host"] or "its node",
        "pid": rank["pid"] or "PID",
        "cpus": rank["limits"]["cpus"] if "limits" in rank else 0,
    }
    who = now.named(first) if len(found) == 1 else format_ranks(found)
    verb = (message.one if len(found) == 1 else message.more).format_map(names)
    behind = list_waiting_ranks(job, wait)
    return HangFinding(
        cause.code,
        f"{who} {verb}, while {_describe_waiters(job, behind, wait)}",
        ranks=tuple(found),
        hosts=job.now.hosts(found),
        group=wait.entry["group"],
        number=wait.entry["number"],
        kind=wait.entry["kind"],
        place=doing.place,
        waiting=tuple(sorted({one.rank for late in found for one in job.lacking[late]})),
        seen=_describe_progress(job, first, wait, doing),
        expected=message.expected,
        fix=message.fix.format_map(names),
    )


def _describe_waiters(job: ObservedJob, behind: list[int], wait: CollectiveWait) -> str:
    age = job.age(wait)
    since = f" for {age:.0f} s" if age >= 1 else ""
    where = find_call_location(job, wait.rank, wait.entry)
    at = f" at {where}" if where else ""
    verb = "wait" if len(behind) > 1 else "waits"
    return f"{format_ranks(behind)} {verb}{since} in {format_collective(wait.entry)}{at}"


def _describe_progress(
    job: ObservedJob, rank: int, wait: CollectiveWait, doing: ThreadActivity
) -> str:
    """Describe a rank's progress, its thread's activity, and other threads that it may wait for."""
    words = describe_last_entry(job, rank, wait.entry["group"])
    parts = [one for one in (words, doing.seen) if one]
    kernel = job.now.ranks[rank].get("kernel", [])
    parts += [f"the kernel: {one['text']}" for one in kernel if one["kind"] == "hung"][-1:]
    parts += describe_gpu_load(job, rank) + describe_ras_state(job, rank)
    if is_swapping(job, rank):
        swapped = job.now.ranks[rank]["paging"]["swapped"] >> 20
        parts.append(f"{swapped} MiB in swap, {job.paged_in(rank):.0f} pages a second from a disk")
    if is_throttled(job, rank):
        parts.append(f"held back in {job.held_back(rank):.0%} of the periods between two looks")
    if doing.kind is ActivityKind.LOCK:
        told = [
            f"thread {thread['name']} is at {place}"
            + (f" ({thread['frames'][0]['text']})" if thread["frames"][0].get("text") else "")
            for thread, place in find_other_threads(job.now.ranks[rank])
        ]
        names = [thread["name"] for thread in job.now.ranks[rank]["threads"][1:]]
        parts += told[:3] or ([f"other threads: {', '.join(names[:6])}"] if names else [])
    return "; ".join(parts)
