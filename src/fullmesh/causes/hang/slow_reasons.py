"""Find the reason why a rank is slower than the others: measured first, then seen in its main thread."""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from fullmesh.causes.hang.common import MANY_PAGES
from fullmesh.causes.hang.job import SECOND, ObservedJob
from fullmesh.causes.hang.late import describe_disk_wait
from fullmesh.causes.hang.places import ActivityKind, ThreadActivity, get_kernel_wait
from fullmesh.observed.hang import Rank

HELD = 0.2  # share of periods in which a control group stopped the rank
STOLEN = 0.05  # share of the node's CPU time
QUEUED = 0.15  # share of the time in which the main thread was ready and got no CPU
CROWDED = 2  # times as long as the others, for the same CPU time
COLLECTIONS = 1.0  # a second, of all objects
RESENT = 0.005  # share of the segments
LEAST_RESENT = 20
TIMES = 3  # as much as the others, where they have it as well
SLOWER = 0.85  # of the clock of the other ranks' GPUs
BUSY = 50  # percent. The clock of an idle GPU is low
# The driver's reasons for a reduced clock that mean a fault or heat (nvml.h): HW and SW thermal, HW, power brake
THROTTLE_REASONS = {
    0x40: "it is too hot",
    0x20: "it is too hot",
    0x80: "the power supply asks for it",
    0x08: "its hardware asks for it (heat or power)",
}
POWER_CAP = 0x04
COMPUTES = 0.3  # of a CPU
UNTOLD = (ActivityKind.COLLECTIVE, ActivityKind.PASSING, ActivityKind.GROUP, ActivityKind.ENDED)


@dataclass(frozen=True)
class SlowReason:
    """A reason, as a clause about the rank, with its next step. Without a fix the reason is unknown."""

    text: str
    fix: str = ""
    check: str = ""


def find_slow_reasons(job: ObservedJob, ranks: Sequence[int]) -> list[SlowReason]:
    """Return the reasons why these ranks are slow, the most certain one first. [] if none is known."""
    whole = ObservedJob([job.samples[0], job.now])
    others = [rank for rank in job.now.asked if rank not in ranks]
    certain = (
        _find_throttling,
        _find_swapping,
        _find_stolen_time,
        _find_gpu_reasons,
        _find_collections,
    )
    found = [reason for find in certain for reason in find(whole, ranks[0], others)]
    # a wait explains more than what happens between the waits
    found += list(_find_activity(job, ranks)) if not found else []
    found += _find_queueing(whole, ranks[0], others)
    return [*found, *_find_resent_segments(whole, ranks[0], others)]


def measure_share(job: ObservedJob, rank: int, read: Callable[[Rank], float]) -> float:
    """Return how much a counter grew for each second between the samples, 0 if unknown."""
    before, now = (job.samples[0].ranks.get(rank), job.now.ranks.get(rank))
    if not before or not now or before["pid"] != now["pid"]:
        return 0.0
    seconds = (now["taken_ns"] - before["taken_ns"]) / SECOND
    first, last = read(before), read(now)
    return (last - first) / seconds if seconds > 0 and 0 <= first <= last else 0.0


def _get_usual(
    job: ObservedJob, ranks: Sequence[int], measure: Callable[[ObservedJob, int], float]
) -> float:
    return statistics.median(measure(job, rank) for rank in ranks) if ranks else 0.0


def _find_throttling(job: ObservedJob, rank: int, _others: Sequence[int]) -> Iterator[SlowReason]:
    held = job.held_back(rank)
    if held >= HELD:
        cpus = job.now.ranks[rank]["limits"]["cpus"]
        yield SlowReason(
            f"its control group allows {cpus:g} CPUs and stopped it in {held:.0%} of the periods",
            f"on {job.now.host(rank)}: lift the limit (systemctl set-property UNIT CPUQuota=, docker's --cpus, Slurm's"
            " --cpus-per-task), or give all ranks the same one",
        )


def _find_swapping(job: ObservedJob, rank: int, _others: Sequence[int]) -> Iterator[SlowReason]:
    pages = job.paged_in(rank)
    if pages >= MANY_PAGES:
        swapped = job.now.ranks[rank]["paging"]["swapped"] >> 20
        yield SlowReason(
            f"{swapped} MiB of its memory are in swap, and it reads {pages:.0f} pages a second back",
            f"free memory on {job.now.host(rank)}, or give the rank less data: ps aux --sort=-rss | head",
        )


def _find_stolen_time(job: ObservedJob, rank: int, _others: Sequence[int]) -> Iterator[SlowReason]:
    ends = [
        one.ranks[rank].get("node_cpu") for one in (job.samples[0], job.now) if rank in one.ranks
    ]
    before, now = ends if len(ends) > 1 else (None, None)
    if not before or not now or now["ticks"] <= before["ticks"]:
        return
    share = (now["stolen"] - before["stolen"]) / (now["ticks"] - before["ticks"])
    if share >= STOLEN:
        yield SlowReason(
            f"the hypervisor gave {share:.0%} of its node's CPU time to other machines (steal)",
            f"move {job.now.host(rank)} to a less busy host, or use an instance type with dedicated CPUs",
        )


def _find_gpu_reasons(job: ObservedJob, rank: int, others: Sequence[int]) -> Iterator[SlowReason]:
    host = job.now.host(rank)
    near = {one["pid"] for one in job.now.ranks.values() if one["host"] == host}
    clocks = [
        gpu["clock"]
        for other in others
        for gpu in job.now.ranks[other].get("gpus", [])
        if gpu.get("clock", 0) > 0
    ]
    for gpu in job.now.ranks[rank].get("gpus", []):
        name = f"GPU {gpu['index']}"
        reasons = [text for bit, text in THROTTLE_REASONS.items() if gpu.get("slowed_by", 0) & bit]
        slower = (
            clocks
            and gpu["busy"] >= BUSY
            and 0 < gpu.get("clock", 0) < SLOWER * statistics.median(clocks)
        )
        if reasons or slower:
            if not reasons:
                reasons = (
                    ["its power limit"]
                    if gpu.get("slowed_by", 0) & POWER_CAP
                    else ["the reason is not known"]
                )
            yield SlowReason(
                f"{name} runs at {gpu.get('clock', 0)} of {gpu.get('clock_most', 0)} MHz: {reasons[0]}",
                f"on {host}: nvidia-smi -q -d PERFORMANCE,TEMPERATURE,POWER -i {gpu['index']}, then check its cooling,"
                " power supply and limits",
            )
        if 0 < gpu.get("lanes", 0) < gpu.get("lanes_most", 0):
            yield SlowReason(
                f"{name} has {gpu['lanes']} of {gpu['lanes_most']} PCIe lanes",
                f"on {host}: reseat the GPU or replace its riser. ./fullmesh explain VC-114",
            )
        strange = sorted(set(gpu.get("others", [])) - near)
        if strange:
            yield SlowReason(
                f"{name} is shared with process {strange[0]}"
                + (f" and {len(strange) - 1} more" if len(strange) > 1 else ""),
                f"on {host}: ps -o user,pid,args -p {','.join(map(str, strange[:4]))}, then end or move it",
            )


def _measure_queue(job: ObservedJob, rank: int) -> float:
    return measure_share(job, rank, lambda one: one["native"].get("queued", -1.0))


def _measure_stretch(job: ObservedJob, rank: int) -> float:
    """Return for how many seconds a rank's main thread waits for a CPU until it has used one for a second."""
    used = job.get_cpu_share(rank, "thread_cpu")
    return _measure_queue(job, rank) / used if used else 0.0


def _find_queueing(job: ObservedJob, rank: int, others: Sequence[int]) -> Iterator[SlowReason]:
    share, stretch = _measure_queue(job, rank), _measure_stretch(job, rank)
    usual = _get_usual(job, others, _measure_stretch)
    if share >= QUEUED and stretch >= max(1.0, CROWDED * usual):
        yield SlowReason(
            f"other processes or threads have the CPUs: it was ready and got none for {share:.0%} of the time",
            f"on {job.now.host(rank)}: ps aux --sort=-pcpu | head shows them."
            " End them, or give the rank CPUs of its own (taskset -cp PID, OMP_NUM_THREADS)",
        )


def _measure_collections(job: ObservedJob, rank: int) -> float:
    return measure_share(job, rank, lambda one: float(one.get("full_collections", -1)))


def _find_collections(job: ObservedJob, rank: int, others: Sequence[int]) -> Iterator[SlowReason]:
    rate = _measure_collections(job, rank)
    if rate >= COLLECTIONS and rate >= TIMES * _get_usual(job, others, _measure_collections):
        yield SlowReason(
            f"Python's garbage collector searches all its objects {rate:.1f} times a second",
            "call gc.disable() (or gc.freeze() after the start), and gc.collect() on all ranks in the same step",
        )


def _measure_resent(job: ObservedJob, rank: int, name: Literal["resent", "segments_out"]) -> int:
    sums = []
    for sample in (job.samples[0], job.now):
        ends = sample.ranks[rank].get("connections", []) if rank in sample.ranks else []
        sums.append(
            {(one["here"], one["port"], one["peer"], one["peer_port"]): one for one in ends}
        )
    before, now = sums
    return sum(
        now[key].get(name, 0) - before[key].get(name, 0) for key in before.keys() & now.keys()
    )


def _find_resent_segments(
    job: ObservedJob, rank: int, others: Sequence[int]
) -> Iterator[SlowReason]:
    resent = _measure_resent(job, rank, "resent")
    sent = _measure_resent(job, rank, "segments_out")
    usual = _get_usual(job, others, lambda one, other: _measure_resent(one, other, "resent"))
    if resent >= LEAST_RESENT and resent >= RESENT * sent and resent >= TIMES * usual:
        yield SlowReason(
            f"its TCP connections sent {resent} of {sent} segments again",
            f"./fullmesh diagnose -i INVENTORY names lossy links. On {job.now.host(rank)}: ethtool -S NIC",
        )


def choose_activity(job: ObservedJob, ranks: Sequence[int]) -> tuple[ThreadActivity, Rank] | None:
    """Return the activity that these ranks were seen in most often when they were in no collective, or None."""
    seen: list[tuple[ThreadActivity, Rank]] = [
        (sample.doing(rank), sample.ranks[rank])
        for sample in job.samples
        for rank in ranks
        if rank in sample.ranks and sample.doing(rank).kind not in UNTOLD
    ]
    seen = [one for one in seen if one[0].place] or seen
    counts = Counter((doing.kind, doing.place) for doing, _ in seen)
    return max(reversed(seen), key=lambda one: counts[(one[0].kind, one[0].place)], default=None)


WORDS = {
    ActivityKind.DISK: (
        "it waits for {disk}",
        "check that storage from {host}: mount, df, dmesg, iostat -x 1",
    ),
    ActivityKind.CHECKPOINT: (
        "it writes a checkpoint",
        "write checkpoints less often, in the background (async_save), or to faster storage",
    ),
    ActivityKind.LOADER: (
        "it waits for a batch of its DataLoader",
        "use more workers (num_workers), prefetch_factor and faster storage, or give it less work for each sample",
    ),
    ActivityKind.SLEEP: (
        "it sleeps",
        "remove the pause at that line, or let all ranks pause together",
    ),
    ActivityKind.LOCK: (
        "it waits for a lock of its own threads",
        "look at the threads that hold the lock",
    ),
    ActivityKind.FILE_LOCK: (
        "it waits for a lock file",
        "find the process that holds the lock file",
    ),
    ActivityKind.HELD_LOCK: (
        "it waits for {wait}",
        "end that process, or use a lock for each rank",
    ),
    ActivityKind.PIPE: ("it waits for {wait}", "check the process at the other end"),
    ActivityKind.SOCKET: ("it waits for {wait}", "check that server, and the path to it"),
    ActivityKind.CHILD: ("it waits for {wait}", "check that process: it is slow"),
    ActivityKind.CALL: ("it waits for {wait}", "check that device or process"),
    ActivityKind.INPUT: ("it reads its standard input", "let all ranks read the same file instead"),
    ActivityKind.GC: (
        "Python's garbage collector runs",
        "call gc.disable(), and gc.collect() on all ranks at once",
    ),
    ActivityKind.STOPPED: (
        "it is stopped by a signal or debugger",
        "find the process that stops it",
    ),
}


def _find_activity(job: ObservedJob, ranks: Sequence[int]) -> Iterator[SlowReason]:
    """Name the place where the main thread is seen most often. That a rank computes is no reason by itself."""
    chosen = choose_activity(job, ranks)
    if chosen is None or chosen[0].kind not in WORDS:
        return
    doing, rank = chosen
    text, fix = WORDS[doing.kind]
    wait = get_kernel_wait(rank)
    names = {
        "disk": describe_disk_wait(doing),
        "wait": wait["text"] if wait else "the kernel",
        "host": rank["host"],
    }
    at = f" at {doing.place}" if doing.place else ""
    yield SlowReason(text.format(**names) + at, fix.format(**names))


def describe_computing(job: ObservedJob, rank: int, place: str) -> str:
    """Describe a rank without a known reason: where it is, and whether it computes."""
    share = ObservedJob([job.samples[0], job.now]).get_cpu_share(rank, "thread_cpu")
    if share is None or share < COMPUTES:
        return f"it is mostly at {place}" if place else "its line is not known either"
    return f"it computes ({share:.0%} of a CPU), mostly at {place or 'a line that is not known'}"
