"""A rank has not entered a collective that others wait in: where it is instead."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from fullmesh.hang.places import FUSE, NFS, ActivityKind, ThreadActivity, find_other_threads
from fullmesh.hang.rules import peers
from fullmesh.hang.rules.common import (
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
from fullmesh.hang.types import (
    CollectiveWait,
    HangFinding,
    ObservedJob,
    format_collective,
    format_ranks,
    get_collective_key,
)


@dataclass(frozen=True)
class ActivityMessage:
    """What is said of ranks that are in one kind of place: a verb with and without its s, and what to do."""

    code: str
    one: str
    more: str
    expected: str
    fix: str


IN_TIME = "every rank comes to it in about the time that the others take"
PLACES: Mapping[ActivityKind, ActivityMessage] = {
    ActivityKind.RUNNING: ActivityMessage(
        "HG-101",
        "is still busy{at}",
        "are still busy{at}",
        IN_TIME,
        "look at that line: a loop that does not end, or work that only this rank does",
    ),
    ActivityKind.INPUT: ActivityMessage(
        "HG-102",
        "waits for somebody to type something{at}",
        "wait for somebody to type something{at}",
        "no rank reads its standard input",
        "take the call out of the script; answer it if the rank has a terminal",
    ),
    ActivityKind.DEBUGGER: ActivityMessage(
        "HG-102",
        "is in a debugger{at}",
        "are in a debugger{at}",
        "no rank stops for a debugger",
        "leave the debugger (c), and take breakpoint() out of the script",
    ),
    ActivityKind.CHECKPOINT: ActivityMessage(
        "HG-103",
        "is still writing or reading a checkpoint{at}",
        "are still writing or reading checkpoints{at}",
        "the checkpoint is written before the others' patience ends",
        "see whether the disk is full or slow (df, iostat); a timeout above the time of the slowest checkpoint, or "
        "torch.distributed.checkpoint.async_save",
    ),
    ActivityKind.LOADER: ActivityMessage(
        "HG-104",
        "gets no batch from its DataLoader's workers{at}",
        "get no batch from their DataLoaders' workers{at}",
        "a batch comes in time",
        "look at the workers of that rank (py-spy dump --pid of its children): a slow file, a dead worker, too little "
        "memory in /dev/shm; DataLoader(timeout=60) names it",
    ),
    ActivityKind.DISK: ActivityMessage(
        "HG-105",
        "waits for {what} that does not answer{at}",
        "wait for {what} that does not answer{at}",
        "reads and writes that end",
        "on {host}: dmesg | tail; findmnt; for NFS: is its server up, does it answer? In state D the process can not "
        "even be killed until it does; for FUSE: does its daemon run (findmnt names it), does what it asks answer?",
    ),
    ActivityKind.STOPPED: ActivityMessage(
        "HG-106",
        "is stopped: somebody sent SIGSTOP or holds it in a debugger{at}",
        "are stopped: somebody sent SIGSTOP or holds them in a debugger{at}",
        "state R or S",
        "on {host}: kill -CONT {pid}; grep TracerPid /proc/{pid}/status shows a debugger",
    ),
    ActivityKind.SLEEP: ActivityMessage(
        "HG-107",
        "sleeps{at}",
        "sleep{at}",
        "no rank sleeps while others wait for it",
        "look at that line: what does it wait for with time.sleep?",
    ),
    ActivityKind.LOCK: ActivityMessage(
        "HG-108",
        "waits for a lock or another thread{at}",
        "wait for a lock or another thread{at}",
        "the thread that holds it lets go",
        "look at both lines: take locks in one order everywhere, and hold none while waiting for another thread",
    ),
    ActivityKind.FILE_LOCK: ActivityMessage(
        "HG-113",
        "waits for a lock file to go away{at}",
        "wait for a lock file to go away{at}",
        "who holds it lets go: a compilation or a download that ends",
        "on {host}: find ~/.cache /tmp -name lock -mmin +5 (torch's own lie below "
        "TORCH_EXTENSIONS_DIR, ~/.cache/torch_extensions); where no compiler runs a killed start left it: remove it",
    ),
    ActivityKind.GC: ActivityMessage(
        "HG-109",
        "is collecting garbage{at}",
        "are collecting garbage{at}",
        "collections of a few milliseconds",
        "gc.freeze() after the start; gc.disable() and gc.collect() on all ranks in the same step",
    ),
    ActivityKind.THROTTLED: ActivityMessage(
        "HG-112",
        "gets no more than {cpus:g} processors from its control group{at}",
        "get no more than {cpus:g} processors from their control groups{at}",
        "as many processors as the other ranks have",
        "on {host}: systemd-cgls -u -l shows the group; systemctl set-property UNIT CPUQuota= lifts that of a "
        "unit; docker's is --cpus, Slurm's --cpus-per-task",
    ),
    ActivityKind.SWAPPING: ActivityMessage(
        "HG-114",
        "waits for its own memory, which comes back from swap page by page{at}",
        "wait for their own memory, which comes back from swap page by page{at}",
        "nothing of a rank in swap",
        "on {host}: vmstat 1 (si), free -h; smem or ps -eo pid,rss,comm --sort -rss shows who has the memory: fewer "
        "DataLoader workers, smaller batches, nobody else on the node; MemorySwapMax=0 for the job's unit ends it "
        "instead",
    ),
    ActivityKind.UNKNOWN: ActivityMessage(
        "HG-110",
        "has not come to it, and nothing tells where it is",
        "have not come to it, and nothing tells where they are",
        "a Python stack of it",
        "on its node: py-spy dump --pid PID",
    ),
}
# A rank that waits in something that the recorder does not keep is in the user's code as far as others are concerned.
ALSO = {ActivityKind.COLLECTIVE: ActivityKind.RUNNING, ActivityKind.PASSING: ActivityKind.RUNNING}
# states of an entry with NCCL, where its times are taken (TORCH_NCCL_ENABLE_TIMING=1)
QUEUED, BEGUN = "scheduled", "started"
# What a rank does more slowly when its control group holds it back.
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


def describe_disk_wait(doing: ThreadActivity) -> str:
    """What a rank waits for that is inside the kernel for a file: ``state D in nfs_wait_bit_killable``."""
    words = doing.seen.partition(" in ")[2].split()
    if words and FUSE.match(words[0]):
        return "a file system in user space (FUSE)"
    return "an NFS server" if words and NFS.match(words[0]) else "a disk or file system"


def rule_late_ranks(job: ObservedJob) -> Iterator[HangFinding]:
    """Every rank comes to the collective that the others are in."""
    together: dict[tuple[ActivityKind, str, tuple[str, int]], list[int]] = {}
    alone = peers.find_unmatched_ranks(job)
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
    for (kind, _, _), found in together.items():
        yield _make_late_finding(job, kind, found)


def _make_late_finding(job: ObservedJob, kind: ActivityKind, found: list[int]) -> HangFinding:
    now, place = job.now, PLACES[kind]
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
    verb = (place.one if len(found) == 1 else place.more).format_map(names)
    behind = list_waiting_ranks(job, wait)
    return HangFinding(
        place.code,
        f"{who} {verb}, while {_describe_waiters(job, behind, wait)}",
        ranks=tuple(found),
        hosts=tuple(dict.fromkeys(now.host(one) for one in found)),
        group=wait.entry["group"],
        number=wait.entry["number"],
        kind=wait.entry["kind"],
        place=doing.place,
        waiting=tuple(sorted({one.rank for late in found for one in job.lacking[late]})),
        seen=_describe_progress(job, first, wait, doing),
        expected=place.expected,
        fix=place.fix.format_map(names),
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
    """How far it came, and what its thread, and others that it may wait for, do."""
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


def rule_not_started(job: ObservedJob) -> Iterator[HangFinding]:
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
        "HG-111",
        f"{who} {has} entered {format_collective(wait.entry)}{' at ' + place if place else ''}, and the {gpu} not "
        "begun it,"
        f" while {format_ranks(behind)} {'wait' if len(behind) > 1 else 'waits'} in it: an earlier kernel still runs "
        "there",
        ranks=tuple(here),
        hosts=tuple(dict.fromkeys(job.now.host(rank) for rank in here)),
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


RULES = (rule_late_ranks, rule_not_started)
