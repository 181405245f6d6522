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
from fullmesh.causes.hang.places import (
    FUSE,
    NFS,
    ActivityKind,
    ThreadActivity,
    find_other_threads,
    get_kernel_wait,
)
from fullmesh.observed.hang import Rank

IN_TIME = "every rank enters it at about the same time"
LATE = tuple(f"HG-1{number:02}" for number in range(1, 20))
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
# A wait in a system call, and the share of a CPU from which on the main thread computes in spite of it.
IN_CALL = (
    ActivityKind.HELD_LOCK,
    ActivityKind.PIPE,
    ActivityKind.SOCKET,
    ActivityKind.CHILD,
    ActivityKind.CALL,
)
COMPUTES = 0.1
# The share of a CPU below which no thread of a process computes. Watchdogs and heartbeats use less.
IDLES = 0.02
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
        kind = _check_cpu_time(job, rank, doing.kind)
        kind = ALSO.get(kind, kind)
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


def _check_cpu_time(job: ObservedJob, rank: int, kind: ActivityKind) -> ActivityKind:
    """Return ``RUNNING`` only for a rank whose CPU time grows between two samples, as far as it is known."""
    thread, process = job.get_cpu_share(rank, "thread_cpu"), job.get_cpu_share(rank, "process_cpu")
    if kind in IN_CALL and thread is not None and thread >= COMPUTES:
        return ActivityKind.RUNNING
    asleep = job.now.ranks[rank]["native"]["state"] != "R"
    if kind is ActivityKind.RUNNING and asleep and process is not None and process < IDLES:
        return ActivityKind.CALL
    return kind


def _describe_activity(job: ObservedJob, rank: int) -> str:
    """Describe a rank that does not wait. Its CPU time is known from two queries, but not from dumps."""
    doing = job.now.doing(rank)
    if doing.kind in ALSO and doing.call:
        return f"in {doing.call}"
    return "in its own code" if job.get_cpu_share(rank, "process_cpu") is None else "busy"


def describe_kernel_wait(rank: Rank) -> str:
    """Describe the object that a rank's main thread waits for in the kernel, and the processes behind it."""
    native = rank["native"]
    if known := get_kernel_wait(rank):
        return known["text"]
    how = native["syscall"] or native["wchan"].strip("0") or "an unknown call"
    return f"the kernel, in {how}, and uses no CPU time"


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
        "what": describe_disk_wait(doing)
        if kind is ActivityKind.DISK
        else describe_kernel_wait(rank),
        "busy": _describe_activity(job, first),
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
    if (known := get_kernel_wait(job.now.ranks[rank])) and doing.kind not in IN_CALL:
        parts.append(f"system call {known['call']}: {known['text']}")
    share = job.get_cpu_share(rank, "thread_cpu")
    if share is not None:
        parts.append(f"used {share:.0%} of a CPU between two queries")
    kernel = job.now.ranks[rank].get("kernel", [])
    parts += [f"the kernel: {one['text']}" for one in kernel if one["kind"] == "hung"][-1:]
    parts += describe_gpu_load(job, rank) + describe_ras_state(job, rank)
    if is_swapping(job, rank):
        swapped = job.now.ranks[rank]["paging"]["swapped"] >> 20
        parts.append(f"{swapped} MiB in swap, {job.paged_in(rank):.0f} pages a second from a disk")
    if is_throttled(job, rank):
        parts.append(f"held back in {job.held_back(rank):.0%} of the periods between two queries")
    if doing.kind is ActivityKind.LOCK:
        phrases = [
            f"thread {thread['name']} is at {place}"
            + (f" ({thread['frames'][0]['text']})" if thread["frames"][0].get("text") else "")
            for thread, place in find_other_threads(job.now.ranks[rank])
        ]
        names = [thread["name"] for thread in job.now.ranks[rank]["threads"][1:]]
        parts += phrases[:3] or ([f"other threads: {', '.join(names[:6])}"] if names else [])
    return "; ".join(parts)
