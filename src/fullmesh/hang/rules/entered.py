"""A rank has not entered a collective that others wait in: where it is instead."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from fullmesh.hang.places import FUSE, NFS, Doing, Kind, others
from fullmesh.hang.rules import peers
from fullmesh.hang.rules.common import (
    called,
    last_words,
    missed,
    on_gpus,
    ras_says,
    reached,
    swaps,
    throttled,
    waiters,
)
from fullmesh.hang.types import Finding, Job, Wait, collective, key, ranks


@dataclass(frozen=True)
class Place:
    """What is said of ranks that are in one kind of place: a verb with and without its s, and what to do."""

    code: str
    one: str
    more: str
    expected: str
    fix: str


IN_TIME = "every rank comes to it in about the time that the others take"
PLACES: Mapping[Kind, Place] = {
    Kind.RUNNING: Place(
        "HG-101",
        "is still busy{at}",
        "are still busy{at}",
        IN_TIME,
        "look at that line: a loop that does not end, or work that only this rank does",
    ),
    Kind.INPUT: Place(
        "HG-102",
        "waits for somebody to type something{at}",
        "wait for somebody to type something{at}",
        "no rank reads its standard input",
        "take the call out of the script; answer it if the rank has a terminal",
    ),
    Kind.DEBUGGER: Place(
        "HG-102",
        "is in a debugger{at}",
        "are in a debugger{at}",
        "no rank stops for a debugger",
        "leave the debugger (c), and take breakpoint() out of the script",
    ),
    Kind.CHECKPOINT: Place(
        "HG-103",
        "is still writing or reading a checkpoint{at}",
        "are still writing or reading checkpoints{at}",
        "the checkpoint is written before the others' patience ends",
        "see whether the disk is full or slow (df, iostat); a timeout above the time of the slowest checkpoint, or "
        "torch.distributed.checkpoint.async_save",
    ),
    Kind.LOADER: Place(
        "HG-104",
        "gets no batch from its DataLoader's workers{at}",
        "get no batch from their DataLoaders' workers{at}",
        "a batch comes in time",
        "look at the workers of that rank (py-spy dump --pid of its children): a slow file, a dead worker, too little "
        "memory in /dev/shm; DataLoader(timeout=60) names it",
    ),
    Kind.DISK: Place(
        "HG-105",
        "waits for {what} that does not answer{at}",
        "wait for {what} that does not answer{at}",
        "reads and writes that end",
        "on {host}: dmesg | tail; findmnt; for NFS: is its server up, does it answer? In state D the process can not "
        "even be killed until it does; for FUSE: does its daemon run (findmnt names it), does what it asks answer?",
    ),
    Kind.STOPPED: Place(
        "HG-106",
        "is stopped: somebody sent SIGSTOP or holds it in a debugger{at}",
        "are stopped: somebody sent SIGSTOP or holds them in a debugger{at}",
        "state R or S",
        "on {host}: kill -CONT {pid}; grep TracerPid /proc/{pid}/status shows a debugger",
    ),
    Kind.SLEEP: Place(
        "HG-107",
        "sleeps{at}",
        "sleep{at}",
        "no rank sleeps while others wait for it",
        "look at that line: what does it wait for with time.sleep?",
    ),
    Kind.LOCK: Place(
        "HG-108",
        "waits for a lock or another thread{at}",
        "wait for a lock or another thread{at}",
        "the thread that holds it lets go",
        "look at both lines: take locks in one order everywhere, and hold none while waiting for another thread",
    ),
    Kind.FILE_LOCK: Place(
        "HG-113",
        "waits for a lock file to go away{at}",
        "wait for a lock file to go away{at}",
        "who holds it lets go: a compilation or a download that ends",
        "on {host}: find ~/.cache /tmp -name lock -mmin +5 (torch's own lie below "
        "TORCH_EXTENSIONS_DIR, ~/.cache/torch_extensions); where no compiler runs a killed start left it: remove it",
    ),
    Kind.GC: Place(
        "HG-109",
        "is collecting garbage{at}",
        "are collecting garbage{at}",
        "collections of a few milliseconds",
        "gc.freeze() after the start; gc.disable() and gc.collect() on all ranks in the same step",
    ),
    Kind.THROTTLED: Place(
        "HG-112",
        "gets no more than {cpus:g} processors from its control group{at}",
        "get no more than {cpus:g} processors from their control groups{at}",
        "as many processors as the other ranks have",
        "on {host}: systemd-cgls -u -l shows the group; systemctl set-property UNIT CPUQuota= lifts that of a "
        "unit; docker's is --cpus, Slurm's --cpus-per-task",
    ),
    Kind.SWAPPING: Place(
        "HG-114",
        "waits for its own memory, which comes back from swap page by page{at}",
        "wait for their own memory, which comes back from swap page by page{at}",
        "nothing of a rank in swap",
        "on {host}: vmstat 1 (si), free -h; smem or ps -eo pid,rss,comm --sort -rss shows who has the memory: fewer "
        "DataLoader workers, smaller batches, nobody else on the node; MemorySwapMax=0 for the job's unit ends it "
        "instead",
    ),
    Kind.UNKNOWN: Place(
        "HG-110",
        "has not come to it, and nothing tells where it is",
        "have not come to it, and nothing tells where they are",
        "a Python stack of it",
        "on its node: py-spy dump --pid PID",
    ),
}
# A rank that waits in something that the recorder does not keep is in the user's code as far as others are concerned.
ALSO = {Kind.COLLECTIVE: Kind.RUNNING, Kind.PASSING: Kind.RUNNING}
# states of an entry with NCCL, where its times are taken (TORCH_NCCL_ENABLE_TIMING=1)
QUEUED, BEGUN = "scheduled", "started"
# What a rank does more slowly when its control group holds it back.
SLOWED = (Kind.RUNNING, Kind.LOADER, Kind.CHECKPOINT, Kind.GC, Kind.UNKNOWN)
# A process that waits for a page of its own is in state D, or between two of them.
SWAPPED = (*SLOWED, Kind.DISK)
# Families of their own tell of these.
ELSEWHERE = (Kind.ENDED, Kind.GROUP)


def what_disk(doing: Doing) -> str:
    """What a rank waits for that is inside the kernel for a file: ``state D in nfs_wait_bit_killable``."""
    words = doing.seen.partition(" in ")[2].split()
    if words and FUSE.match(words[0]):
        return "a file system in user space (FUSE)"
    return "an NFS server" if words and NFS.match(words[0]) else "a disk or file system"


def rule_late(job: Job) -> Iterator[Finding]:
    """Every rank comes to the collective that the others are in."""
    together: dict[tuple[Kind, str, tuple[str, int]], list[int]] = {}
    alone = peers.alone(job)
    for rank in job.late:
        if rank not in job.now.ranks:
            continue
        doing = job.now.doing(rank)
        kind = ALSO.get(doing.kind, doing.kind)
        kind = Kind.THROTTLED if kind in SLOWED and throttled(job, rank) else kind
        kind = Kind.SWAPPING if kind in SWAPPED and swaps(job, rank) else kind
        there = reached(job, rank) or kind in (Kind.THROTTLED, Kind.SWAPPING)
        if not there or doing.kind in ELSEWHERE or rank in alone:
            continue
        # At one place are ranks that run the same line; of an idle one the line says nothing.
        together.setdefault((kind, doing.place, key(missed(job, rank).entry)), []).append(rank)
    for (kind, _, _), found in together.items():
        yield _finding(job, kind, found)


def _finding(job: Job, kind: Kind, found: list[int]) -> Finding:
    now, place = job.now, PLACES[kind]
    first = found[0]
    wait, doing, rank = missed(job, first), now.doing(first), now.ranks[first]
    names = {
        "at": f" at {doing.place}" if doing.place else "",
        "what": what_disk(doing) if kind is Kind.DISK else "",
        "host": rank["host"] or "its node",
        "pid": rank["pid"] or "PID",
        "cpus": rank["limits"]["cpus"] if "limits" in rank else 0,
    }
    who = now.named(first) if len(found) == 1 else ranks(found)
    verb = (place.one if len(found) == 1 else place.more).format_map(names)
    behind = waiters(job, wait)
    return Finding(
        place.code,
        f"{who} {verb}, while {_they(job, behind, wait)}",
        ranks=tuple(found),
        hosts=tuple(dict.fromkeys(now.host(one) for one in found)),
        group=wait.entry["group"],
        number=wait.entry["number"],
        kind=wait.entry["kind"],
        place=doing.place,
        waiting=tuple(sorted({one.rank for late in found for one in job.lacking[late]})),
        seen=_seen(job, first, wait, doing),
        expected=place.expected,
        fix=place.fix.format_map(names),
    )


def _they(job: Job, behind: list[int], wait: Wait) -> str:
    age = job.age(wait)
    since = f" for {age:.0f} s" if age >= 1 else ""
    where = called(job, wait.rank, wait.entry)
    at = f" at {where}" if where else ""
    verb = "wait" if len(behind) > 1 else "waits"
    return f"{ranks(behind)} {verb}{since} in {collective(wait.entry)}{at}"


def _seen(job: Job, rank: int, wait: Wait, doing: Doing) -> str:
    """How far it came, and what its thread, and others that it may wait for, do."""
    words = last_words(job, rank, wait.entry["group"])
    parts = [one for one in (words, doing.seen) if one]
    kernel = job.now.ranks[rank].get("kernel", [])
    parts += [f"the kernel: {one['text']}" for one in kernel if one["kind"] == "hung"][-1:]
    parts += on_gpus(job, rank) + ras_says(job, rank)
    if swaps(job, rank):
        swapped = job.now.ranks[rank]["paging"]["swapped"] >> 20
        parts.append(f"{swapped} MiB in swap, {job.paged_in(rank):.0f} pages a second from a disk")
    if throttled(job, rank):
        parts.append(f"held back in {job.held_back(rank):.0%} of the periods between two looks")
    if doing.kind is Kind.LOCK:
        told = [
            f"thread {thread['name']} is at {place}"
            + (f" ({thread['frames'][0]['text']})" if thread["frames"][0].get("text") else "")
            for thread, place in others(job.now.ranks[rank])
        ]
        names = [thread["name"] for thread in job.now.ranks[rank]["threads"][1:]]
        parts += told[:3] or ([f"other threads: {', '.join(names[:6])}"] if names else [])
    return "; ".join(parts)


def rule_not_begun(job: Job) -> Iterator[Finding]:
    """What some ranks' GPUs have begun the others' begin soon, else something before it keeps them busy."""
    seen: set[tuple[str, int]] = set()
    for wait in job.waits:
        if wait.lacks or wait.entry["state"] != BEGUN or key(wait.entry) in seen:
            continue
        seen.add(key(wait.entry))
        group, number = key(wait.entry)
        entered = {r: of[number] for r, of in job.now.by_number[group].items() if number in of}
        here = sorted(
            r for r, one in entered.items() if one["state"] == QUEUED and not one["retired"]
        )
        if here:
            yield _queued(job, wait, here)


def _queued(job: Job, wait: Wait, here: list[int]) -> Finding:
    place = called(
        job, here[0], job.now.by_number[wait.entry["group"]][here[0]][wait.entry["number"]]
    )
    behind = [rank for rank in waiters(job, wait) if rank not in here]
    who = job.now.named(here[0]) if len(here) == 1 else ranks(here)
    has, gpu = ("have", "GPUs have") if len(here) > 1 else ("has", "GPU has")
    return Finding(
        "HG-111",
        f"{who} {has} entered {collective(wait.entry)}{' at ' + place if place else ''}, and the {gpu} not begun it,"
        f" while {ranks(behind)} {'wait' if len(behind) > 1 else 'waits'} in it: an earlier kernel still runs there",
        ranks=tuple(here),
        hosts=tuple(dict.fromkeys(job.now.host(rank) for rank in here)),
        group=wait.entry["group"],
        number=wait.entry["number"],
        kind=wait.entry["kind"],
        place=place,
        waiting=tuple(behind),
        seen=f"{QUEUED} on {ranks(here)}, {BEGUN} on {ranks(behind)}",
        expected=f"{BEGUN} on all of them",
        fix="what did that rank start on the GPU before? CUDA_LAUNCH_BLOCKING=1 shows the line; a kernel of one's own "
        "that does not end, a collective of another group on another stream; nvidia-smi and Xid on its node",
    )


RULES = (rule_late, rule_not_begun)
