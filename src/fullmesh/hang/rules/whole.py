"""The job as a whole: all are in it, nobody waits for anybody, nothing is wrong, one rank is always last, no answer."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from fullmesh.hang.rules import carried
from fullmesh.hang.rules.common import (
    describe_gpu_load,
    describe_ras_state,
    find_call_location,
    is_held_back,
    is_rank_observable,
    list_waiting_ranks,
)
from fullmesh.hang.types import (
    CAUSE,
    NOTE,
    SECOND,
    WARNING,
    CollectiveWait,
    HangFinding,
    JobSample,
    ObservedJob,
    format_collective,
    format_ranks,
    get_collective_key,
    has_record,
)

SOON = 1.0  # seconds in which a job may well enter nothing
SAMPLES = 4  # that have to show the same rank last
MOSTLY = 0.75
PLACES_SHOWN = 3
HOSTS_SHOWN = 4


def rule_all_entered(job: ObservedJob) -> Iterator[HangFinding]:
    """What all ranks have entered comes to its end, or the network between them does not carry it."""
    seen: set[tuple[str, int]] = set()
    for wait in job.waits:
        members = job.now.members[wait.entry["group"]]
        if wait.lacks or get_collective_key(wait.entry) in seen or len(members) < 2:  # noqa: PLR2004 (two ends)
            continue
        seen.add(get_collective_key(wait.entry))
        yield _make_all_entered_finding(job, wait, members)


def _make_all_entered_finding(
    job: ObservedJob, wait: CollectiveWait, members: tuple[int, ...]
) -> HangFinding:
    behind = list_waiting_ranks(job, wait)
    out = [rank for rank in members if rank not in behind]
    place = find_call_location(job, wait.rank, wait.entry)
    stuck = f"{format_ranks(behind)} {'do' if len(behind) > 1 else 'does'} not come"
    through = f"; {format_ranks(out)} came out of it" if out else ""
    at = f" at {place}" if place else ""
    age = job.age(wait)
    links = list(carried.find_stuck_connections(job, members))
    dark = dict(list(carried.find_dead_interfaces(job, members).items())[:HOSTS_SHOWN])
    ways = "; ".join(filter(None, [carried.describe_dead_directions(links), *dark]))
    seen = [f"entered {age:.0f} s ago" if age else "entered by all, not ended"]
    driver = [
        said
        for rank in behind
        for said in (*describe_gpu_load(job, rank), *describe_ras_state(job, rank))
    ][:HOSTS_SHOWN]
    return HangFinding(
        "HG-161",
        f"all {len(members)} ranks of {wait.entry['desc'] or 'group ' + wait.entry['group']} are in"
        f" {format_collective(wait.entry)}{at}, and {stuck if out else 'none comes'}"
        f" out{through}: {ways or 'what carries it stands'}",
        ranks=tuple(behind),
        hosts=tuple(dict.fromkeys(job.now.host(rank) for rank in behind)),
        group=wait.entry["group"],
        number=wait.entry["number"],
        kind=wait.entry["kind"],
        place=place,
        waiting=tuple(behind),
        seen="; ".join(
            filter(
                None,
                [
                    *seen,
                    carried.describe_connections(links),
                    *driver,
                    *_describe_xids(job.now, behind),
                ],
            )
        ),
        expected="it ends in about the time that the ones before it took",
        fix="".join(dark.values())
        + "./fullmesh diagnose -i INVENTORY tests every link beside the job; with GPUs also: nvidia-smi, and "
        "journalctl -k | grep Xid on these nodes",
    )


def _describe_xids(now: JobSample, here: list[int]) -> list[str]:
    """What NVIDIA's driver said on the nodes of some ranks: one line a node, the newest."""
    found = {
        now.host(rank): f"{now.host(rank)}: {line['text']}"
        for rank in here
        for line in now.ranks[rank].get("kernel", [])
        if line["kind"] == "xid"
    }
    return list(found.values())[:HOSTS_SHOWN]


def find_newest_entries(sample: JobSample) -> dict[int, int]:
    """Rank -> how many things it has entered."""
    return {
        rank: max((one["record"] for one in sample.ranks[rank]["entries"]), default=-1)
        for rank in sample.asked
    }


def rule_no_progress(job: ObservedJob) -> Iterator[HangFinding]:
    """Somebody goes on: a job stands as well where no collective of its recorder does."""
    before, now = job.before, job.now
    if before is None or job.waits or not now.asked:
        return
    was, found = find_newest_entries(before), find_newest_entries(now)
    here = [rank for rank in now.asked if is_rank_observable(job, rank)]
    still = all(was.get(rank) == found[rank] for rank in now.asked)
    stay = all(before.place(rank) == now.place(rank) for rank in here)
    if not here or not still or not stay or _measure_idle_seconds(now) < max(job.stalled, SOON):
        return
    counts = Counter((now.place(rank), now.doing(rank).seen) for rank in here)
    order = sorted(counts.items(), key=lambda one: (-one[1], one[0]))
    seen = [f"{count} at {place or 'no known place'}, {what}" for (place, what), count in order]
    place = order[0][0][0]
    yield HangFinding(
        "HG-164",
        f"nothing goes on: no rank has entered anything for {_measure_idle_seconds(now):.0f} s, and "
        f"{format_ranks(here)}"
        f" {'stand' if len(here) > 1 else 'stands'} where {'they were' if len(here) > 1 else 'it was'}"
        f" before{', most at ' + place if place else ''}",
        ranks=tuple(here),
        hosts=tuple(dict.fromkeys(now.host(rank) for rank in here)),
        place=place,
        seen="; ".join(seen[:PLACES_SHOWN]),
        expected="a collective now and then",
        fix="look at these lines: what do they wait for? A file, a server or a terminal; sends and receives whose tags "
        "or peers do not fit; or a link (./fullmesh diagnose -i INVENTORY)",
    )


def _measure_idle_seconds(sample: JobSample) -> float:
    """Seconds since any rank entered something."""
    ages = [
        (sample.ranks[rank]["taken_ns"] - sample.ranks[rank]["entries"][-1]["created_ns"]) / SECOND
        for rank in sample.asked
        if sample.ranks[rank]["entries"] and sample.ranks[rank]["taken_ns"]
    ]
    return min(ages, default=0.0)


def rule_all_progress(job: ObservedJob) -> Iterator[HangFinding]:
    """All ranks entered something since they were looked at before: nothing stands."""
    before, now = job.before, job.now
    if before is None or job.waits or not now.asked:
        return
    was, found = find_newest_entries(before), find_newest_entries(now)
    steps = [found[rank] - was[rank] for rank in now.asked if rank in was]
    if len(steps) < now.world or min(steps) <= 0:
        return
    first = now.asked[0]
    seconds = (now.ranks[first]["taken_ns"] - before.ranks[first]["taken_ns"]) / SECOND
    yield HangFinding(
        "HG-162",
        f"nothing is wrong: every rank went on, by {min(steps)} collectives or more in {seconds:.1f} s",
        ranks=tuple(now.asked),
        seen=f"{min(steps)} to {max(steps)} collectives",
        severity=NOTE,
        expected="progress on every rank",
        fix="nothing; if it is slower than you think, see which rank is last when it is looked at several times",
    )


def count_waiters_by_rank(sample: JobSample) -> dict[int, int]:
    """Rank -> how many others wait for it at this moment, whoever waits for how long."""
    return dict(
        Counter(
            rank
            for wait in ObservedJob([sample]).waits
            for rank in wait.lacks
            if has_record(sample.ranks[rank])
        )
        if all(rank in sample.ranks for rank in range(sample.world))
        else {}
    )


def rule_slow_rank(job: ObservedJob) -> Iterator[HangFinding]:
    """No rank is always the one that the others wait for, while the job goes on."""
    if len(job.samples) < SAMPLES or job.waits:
        return
    last = [one for one in map(count_waiters_by_rank, job.samples) if one]
    alone = Counter(next(iter(one)) for one in last if len(one) == 1)
    if not alone:
        return
    rank, times = min(alone.items(), key=lambda one: (-one[1], one[0]))
    if times < SAMPLES or times < MOSTLY * len(last) or times * 2 < len(job.samples):
        return
    late = [one for one in job.samples if rank in count_waiters_by_rank(one)]
    counts = Counter((one.place(rank), one.doing(rank).seen) for one in late)
    (place, what), _ = min(counts.items(), key=lambda one: (-one[1], one[0]))
    yield HangFinding(
        "HG-163",
        f"the job goes on, and {job.now.named(rank)} is the last in {times} of {len(job.samples)} looks; it is then"
        f" mostly at {place or 'a place that is not known'}",
        ranks=(rank,),
        hosts=(job.now.host(rank),),
        place=place,
        seen=what,
        expected="now one rank is last, now another",
        fix="compare that rank's node with the others: other processes, a slower disk, clocks of CPU and GPU, more "
        "data; ./fullmesh verify -i INVENTORY compares nodes",
        severity=WARNING,
    )


def rule_unanswered_ranks(job: ObservedJob) -> Iterator[HangFinding]:
    """Every rank says where it is."""
    now = job.now
    together: dict[tuple[str, bool], list[int]] = {}
    for rank in range(now.world):
        one = now.ranks.get(rank)
        if one is not None and (has_record(one) or one["process"] == "gone"):
            continue
        if one is not None and (now.doing(rank).elsewhere or is_held_back(job, rank)):
            continue  # seen from outside
        why = one["missing"][0]["why"] if one and one["missing"] else "there is nothing of it"
        together.setdefault((why, rank in job.lacking), []).append(rank)
    for (why, wanted), here in together.items():
        hosts = tuple(dict.fromkeys(now.host(rank) for rank in here if now.host(rank)))
        rest = f" and {len(hosts) - HOSTS_SHOWN} more" if len(hosts) > HOSTS_SHOWN else ""
        on = f" ({', '.join(hosts[:HOSTS_SHOWN])}{rest})" if hosts else ""
        waits = job.lacking.get(here[0], [])
        what = f", and others wait for it in {format_collective(waits[0].entry)}" if waits else ""
        yield HangFinding(
            "HG-151",
            f"{format_ranks(here)}{on} cannot be asked: {why}{what}",
            ranks=tuple(here),
            hosts=hosts,
            group=waits[0].entry["group"] if waits else "",
            number=waits[0].entry["number"] if waits else 0,
            kind=waits[0].entry["kind"] if waits else "",
            waiting=tuple(sorted({w.rank for rank in here for w in job.lacking.get(rank, [])})),
            seen="; ".join(
                [_describe_kernel_state(now, here[0]) or why, *_describe_silent_ras(job, here[0])]
            ),
            expected="an answer of every rank",
            fix="is the node up, does the process live? ./fullmesh diagnose -i INVENTORY asks the nodes; on it: "
            "py-spy dump --pid PID",
            severity=CAUSE if wanted else WARNING,
        )


def _describe_silent_ras(job: ObservedJob, rank: int) -> list[str]:
    """What NCCL's own watch knows of a rank that says nothing itself."""
    return describe_ras_state(job, rank) if rank in job.now.ranks else []


def _describe_kernel_state(now: JobSample, rank: int) -> str:
    """What the kernel shows of a process that does not answer."""
    if rank not in now.ranks or not now.ranks[rank]["native"]["state"]:
        return ""
    native = now.ranks[rank]["native"]
    return f"state {native['state']}, {native['wchan'] or 'no wait channel'}, {native['syscall'] or 'no system call'}"


RULES = (
    rule_all_entered,
    rule_no_progress,
    rule_all_progress,
    rule_slow_rank,
    rule_unanswered_ranks,
)
