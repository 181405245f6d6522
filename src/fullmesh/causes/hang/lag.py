"""Measure how late each rank enters the collectives that it shares with others, and the time that the job loses.

**Lag.** All ranks of a group enter the same collectives, and the recorder keeps the times. The others wait for the
rank that enters last. The pauses between a rank's own entries do not show that: with blocking collectives all ranks go
in step, so a slow rank and those that wait for it have equal pauses. Only the comparison of arrivals shows it, and that
needs equal clocks.

**Clocks.** Ranks of one node share a clock. For several nodes, the controller compares each node's clock with its own
(``compare_clocks`` of ``fullmesh.hang.ask``), and the difference is subtracted. The arrivals alone cannot give it: if
rank 1 always arrives 0.3 s after rank 0, its clock may as well be 0.3 s ahead. Lags below the doubt of the clocks do
not count.

**GPUs.** With NCCL, the record has the time at which the CPU started a collective, which a slow GPU does not change. If
the job runs with TORCH_NCCL_ENABLE_TIMING=1, it has the duration on the GPU as well. All GPUs leave a collective at
about the same time, so the one that was in it for the shortest time was last. This needs no clocks.

**Rounds.** A program that starts several collectives before it waits (DDP's buckets) is late in all of them for one
reason. So collectives whose arrivals overlap are one round. The rank that enters the last of them last costs the job
the time since all others had entered it, once.

**Spread.** Steps of healthy ranks vary, and one is always last. If the ranks are alike, each is last in about
1 / ranks of the rounds. A rank is slow under two conditions. It is last so often that this is chance in one of a
million cases, even if rounds with the same last rank come in a row. And the others wait for it for a tenth of the time,
beyond the time that they wait for each other. Rounds with small lags say nothing, so several thresholds are tried: a
rank that is 12 % late in each step is found with the first one, a rank that reads its data for 2 s in every tenth step
with the last.

Functions are pure, and the numbers of ranks, groups and collectives are those that the collector sent, which limits
them.
"""

from __future__ import annotations

import itertools
import math
import statistics
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

from fullmesh.causes.hang.job import SECOND, JobSample, ObservedJob
from fullmesh.causes.hang.passing import find_p2p_call, find_p2p_pairs

MICROSECOND = 1000  # nanoseconds
LEAST_UNITS = 2  # one alone has no others
LEAST_ROUNDS = 20
LEAST_SECONDS = 1.0  # shorter than that, one moment of the scheduler decides
CHANCE = 1e-6
LEAST_SHARE = 0.10
LEAST_LAG = 2_000_000  # nanoseconds, about the time slice of a scheduler
THRESHOLDS = (0.05, 0.3, 1.0)  # of a round
CLOCK_DOUBT = 1_000_000  # nanoseconds between two nodes, next to the doubt of the measurements
LONGEST_GAP = 8  # collectives of one root in a row, which are not among the arrivals
Times = Mapping[int, Mapping[int, int]]


@dataclass(frozen=True)
class SlowRanks:
    """Ranks that the others wait for.

    Attributes:
        ranks: one, or all ranks of a node.
        group: the process group in which it shows.
        share: the share of time in which all other ranks wait for them, and for no other rank.
        last, rounds: they were last in so many of the rounds with a lag above the threshold.
        lag: seconds, typical for these rounds, behind the median of the ranks.
        step: seconds from round to round.
        seconds: the time that was observed.
        collectives: their number.
    """

    ranks: tuple[int, ...]
    group: str
    share: float
    last: int
    rounds: int
    lag: float
    step: float
    seconds: float
    collectives: int


@dataclass(frozen=True)
class Round:
    """Collectives whose arrivals overlap.

    Attributes:
        ends: unit -> the time at which it entered the last of them. A unit is a rank, or all ranks of a node.
        first, last: their numbers.
        count: how many they are.
    """

    ends: Mapping[int, int]
    first: int
    last: int
    count: int

    @property
    def end(self) -> int:
        """Return the time at which all ranks had entered all of them."""
        return max(self.ends.values())

    def find_last(self) -> tuple[int, int]:
        """Return the unit that was last, and its lag behind the median."""
        unit = max(self.ends, key=lambda one: (self.ends[one], one))
        return unit, self.ends[unit] - statistics.median_low(self.ends.values())

    def measure_wait(self, units: Collection[int]) -> int:
        """Return the nanoseconds in which these units, and no others, were missing."""
        slow = max(self.ends[unit] for unit in units)
        return max(0, slow - max(at for unit, at in self.ends.items() if unit not in units))


def collect_arrivals(job: ObservedJob) -> dict[str, dict[int, dict[int, int]]]:
    """Map group, rank and number to the time of entry by the rank's own clock, from all samples."""
    found: dict[str, dict[int, dict[int, int]]] = {}
    for sample in job.samples:
        for rank, one in sample.ranks.items():
            for part in one.get("arrivals", []):
                times = found.setdefault(part["group"], {}).setdefault(rank, {})
                created = itertools.accumulate(
                    part["gaps_us"], lambda at, gap: at - gap, initial=part["created_us"]
                )
                times.update(
                    (number, at * MICROSECOND)
                    for number, at in zip(part["numbers"], created, strict=False)
                )
    return found


def subtract_clocks(sample: JobSample, times: Times) -> Times:
    """Return the times by the controller's clock.

    Ranks on one node need no change. {} if there are several nodes and the clock of one is not known.
    """
    if len({sample.host(rank) for rank in times}) <= 1:
        return times
    clocks = {rank: sample.ranks[rank].get("clock") for rank in times}
    return (
        {
            rank: {number: at - clock["ahead_ns"] for number, at in times[rank].items()}
            for rank, clock in clocks.items()
            if clock
        }
        if all(clocks.values())
        else {}
    )


def collect_durations(job: ObservedJob) -> dict[str, dict[int, dict[int, int]]]:
    """Map group, rank and number to the nanoseconds that the rank's GPU was in it, as far as they are known."""
    found: dict[str, dict[int, dict[int, int]]] = {}
    for sample in job.samples:
        for rank, one in sample.ranks.items():
            for part in one.get("arrivals", []):
                pairs = zip(part["numbers"], part.get("durations_us", []), strict=False)
                known = {number: us * MICROSECOND for number, us in pairs if us >= 0}
                found.setdefault(part["group"], {}).setdefault(rank, {}).update(known)
    return found


def find_clock_doubt(sample: JobSample, ranks: Sequence[int]) -> int:
    """Return the doubt about the lag between two of these ranks in nanoseconds, 0 if they share a clock."""
    doubts = {sample.host(rank): sample.ranks[rank].get("clock") for rank in ranks}
    if len(doubts) <= 1:
        return 0
    known = sorted(one["doubt_ns"] for one in doubts.values() if one)
    return sum(known[-2:]) + CLOCK_DOUBT


def build_rounds(times: Times, units: Mapping[int, Sequence[int]]) -> list[Round]:
    """Join the collectives that all ranks have entered to rounds. Return none if a rank's times do not grow.

    Args:
        times: rank -> number -> time.
        units: the ranks of each unit.
    """
    numbers = sorted(set.intersection(*(set(one) for one in times.values()))) if times else []
    for one in times.values():
        own = [one[number] for number in numbers]
        if any(later < before for before, later in itertools.pairwise(own)):
            return []
    found: list[Round] = []
    for number in numbers:
        ends = {unit: max(times[rank][number] for rank in ranks) for unit, ranks in units.items()}
        if found and min(ends.values()) <= found[-1].end:
            before = found.pop()
            later = {unit: max(at, before.ends[unit]) for unit, at in ends.items()}
            found.append(Round(later, before.first, number, before.count + 1))
        else:
            found.append(Round(ends, number, number, 1))
    return found


def build_gpu_rounds(
    durations: Times, times: Mapping[int, int], units: Mapping[int, Sequence[int]]
) -> list[Round]:
    """Make a round of each collective of which the durations on all GPUs are known.

    Args:
        durations: rank -> number -> nanoseconds on the GPU.
        times: number -> time of entry of one rank, which gives the pace.
        units: the ranks of each unit.
    """
    known = [set(one) for one in durations.values()]
    numbers = sorted(set.intersection(set(times), *known)) if known else []
    return [
        Round(
            {
                unit: times[number] - min(durations[rank][number] for rank in ranks)
                for unit, ranks in units.items()
            },
            number,
            number,
            1,
        )
        for number in numbers
    ]


def get_chance(count: int, times: int, units: int) -> float:
    """Return the probability that one of so many equal units is last *times* or more of *count* times."""
    share = 1 / units

    def term(number: int) -> float:
        ways = math.lgamma(count + 1) - math.lgamma(number + 1) - math.lgamma(count - number + 1)
        return math.exp(ways + number * math.log(share) + (count - number) * math.log(1 - share))

    return sum(term(number) for number in range(times, count + 1))


def count_independent(hits: Sequence[bool]) -> float:
    """Return how many independent observations a series is worth.

    If long texts come in a row, one rank is last in a row, and these rounds say little more than one of them does.
    Neighbours that agree more often than chance (autocorrelation) make the series worth less.
    """
    count, share = len(hits), sum(hits) / len(hits)
    spread = share * (1 - share)
    if count < 2 or not spread:  # noqa: PLR2004 (neighbours)
        return count
    pairs = itertools.pairwise(one - share for one in hits)
    alike = sum(before * later for before, later in pairs) / (count - 1) / spread
    alike = min(max(alike, 0.0), 0.99)
    return count * (1 - alike) / (1 + alike)


def is_beyond_chance(order: Sequence[int], unit: int, units: int) -> bool:
    """Return whether a unit is last so often that equal units would not be.

    Args:
        order: the last unit of each round.
        unit: the one to judge.
        units: their number.
    """
    hits = [one == unit for one in order]
    count = count_independent(hits)
    times = count * sum(hits) / len(hits)
    return get_chance(round(count), round(times), units) <= CHANCE


def judge_rounds(
    rounds: Sequence[Round], units: Mapping[int, Sequence[int]], doubt: int, group: str
) -> SlowRanks | None:
    """Return the units that the others wait for, or None."""
    if len(rounds) < LEAST_ROUNDS or len(units) < LEAST_UNITS:
        return None
    steps = [
        later.end - before.end
        for before, later in itertools.pairwise(rounds)
        if later.first - before.last <= LONGEST_GAP
    ]
    total = sum(steps)
    if total < LEAST_SECONDS * SECOND or len(steps) < LEAST_ROUNDS - 1:
        return None
    lasts = [one.find_last() for one in rounds]
    alone = dict.fromkeys(units, 0.0)
    for one, (unit, _) in zip(rounds, lasts, strict=True):  # the others cost nothing alone
        alone[unit] += one.measure_wait({unit}) / total
    best: SlowRanks | None = None
    for threshold in THRESHOLDS:
        least = max(threshold * total / len(steps), LEAST_LAG, 2 * doubt)
        late = [(unit, lag) for unit, lag in lasts if lag > least]
        counts = Counter(unit for unit, _ in late)
        order = [unit for unit, _ in late]
        slow = {unit for unit in counts if is_beyond_chance(order, unit, len(units))}
        if not 0 < len(slow) <= len(units) // 2:
            continue
        doubted = doubt * sum(counts[unit] for unit in slow) / total
        share = sum(one.measure_wait(slow) for one in rounds) / total - doubted
        usual = statistics.median(alone[unit] for unit in units if unit not in slow)
        if share - usual * len(slow) < LEAST_SHARE or (best and best.share >= share):
            continue
        best = SlowRanks(
            ranks=tuple(sorted(rank for unit in slow for rank in units[unit])),
            group=group,
            share=min(1.0, share),
            last=sum(counts[unit] for unit in slow),
            rounds=len(late),
            lag=statistics.median(lag for unit, lag in late if unit in slow) / SECOND,
            step=total / len(steps) / SECOND,
            seconds=total / SECOND,
            collectives=sum(one.count for one in rounds),
        )
    return best


def is_pipeline(job: ObservedJob, members: Sequence[int]) -> bool:
    """Return whether members of a group send data to each other.

    Then they have different work (the stages of a pipeline), and the first stage is the last one by design. NCCL's
    record names the peers. With Gloo only the stacks show that a rank sends or receives.
    """
    inside = set(members)
    for sample in job.samples:
        if any(rank in inside and peer in inside for rank, peer in find_p2p_pairs(sample)):
            return True
        if any(find_p2p_call(sample, rank) for rank in sample.asked if rank in inside):
            return True
    return False


def make_units(sample: JobSample, members: Sequence[int]) -> Iterator[dict[int, tuple[int, ...]]]:
    """Yield the units to compare: single ranks, then nodes with several ranks."""
    yield {rank: (rank,) for rank in members}
    nodes: dict[str, list[int]] = {}
    for rank in members:
        nodes.setdefault(sample.host(rank), []).append(rank)
    if 1 < len(nodes) < len(members):
        yield {ranks[0]: tuple(ranks) for ranks in nodes.values()}


def judge_group(job: ObservedJob, group: str, own: Times, durations: Times) -> Iterator[SlowRanks]:
    """Yield the slow ranks, or else the slow nodes, of a group: by the CPUs' times, and by the GPUs'.

    Args:
        job: with its clocks.
        group: its name.
        own: rank -> number -> time by the rank's own clock, of all members.
        durations: rank -> number -> nanoseconds on the GPU.
    """
    times = subtract_clocks(job.now, own)
    doubt = find_clock_doubt(job.now, tuple(own))
    pace = next(iter(own.values()))
    for units in make_units(job.now, tuple(own)):
        by_cpu = judge_rounds(build_rounds(times, units), units, doubt, group)
        by_gpu = judge_rounds(build_gpu_rounds(durations, pace, units), units, 0, group)
        if by_cpu or by_gpu:
            yield from (one for one in (by_cpu, by_gpu) if one)
            return


def find_lagging_ranks(job: ObservedJob) -> SlowRanks | None:
    """Return the ranks for which the others lose most time, or None if all ranks are alike."""
    found: list[SlowRanks] = []
    arrivals, durations = collect_arrivals(job), collect_durations(job)
    for group, times in arrivals.items():
        members = job.now.members.get(group, ())
        known = all(rank in times and rank in job.now.asked for rank in members)
        if len(members) >= LEAST_UNITS and known and not is_pipeline(job, members):
            own = {rank: times[rank] for rank in members}
            on_gpus = {rank: durations[group].get(rank, {}) for rank in members}
            found += judge_group(job, group, own, on_gpus)
    return max(found, key=lambda one: (one.share, one.group), default=None)
