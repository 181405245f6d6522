"""hang: ranks that the others always wait for, in what `./fullmesh hang --samples 4` got from real jobs."""

from __future__ import annotations

import copy
import itertools
import math
import random
import time
from collections.abc import Callable
from functools import cache
from typing import Any

import hang_records
import pytest
from hang_records import SLOW
from record_files import load_record, name_record

from fullmesh.causes.hang import lag
from fullmesh.causes.hang.job import HangFinding
from fullmesh.hang import ask, recorder
from fullmesh.hang.judge import judge_job
from fullmesh.observed.hang import ClockReading

SECOND = 1_000_000_000
STALLED = 5.0
# job -> its slow ranks, and the reason
REASONS: dict[str, tuple[tuple[int, ...], str]] = {
    "slow_sleep": ((1,), "it sleeps at /home/user/train.py:20"),
    "slow_tenth": ((1,), "it sleeps at /home/user/train.py:21"),
    "slow_data": ((1,), "unknown: it computes ("),
    "slow_quota": ((1,), "its control group allows 0.2 CPUs and stopped it in "),
    "slow_cpu": ((1,), "other processes or threads have the CPUs: it was ready and got none for "),
    "slow_loader": ((1,), "it waits for a batch of its DataLoader at /home/user/train.py:14"),
    "slow_gc": ((1,), "Python's garbage collector searches all its objects "),
    "slow_lock": ((1,), "it waits for a lock of its own threads at /home/user/train.py:"),
    "slow_child": ((1,), "it waits for "),
    "slow_files": ((1,), "it waits for a file system in user space (FUSE) at /home/user/train.py:"),
    "slow_ddp": ((1,), "unknown: it computes ("),
    "slow_node": ((2, 3), "it sleeps at /home/user/train.py:"),
    "slow_of_four": ((2,), "it sleeps at /home/user/train.py:"),
    "slow_pair": ((3,), "it sleeps at /home/user/train.py:"),
}
HEALTHY = sorted({name_record(path) for path in SLOW.glob("*.gz")} - REASONS.keys())


@cache
def raw(name: str) -> Any:
    return load_record(SLOW / f"{name}.json")["samples"]


def judge(
    name: str,
    change: Callable[[Any], object] = lambda _: None,
    clocks: tuple[ClockReading | None, ...] = ({"ahead_ns": 0, "doubt_ns": 200_000},) * 2,
    looks: int = 4,
) -> list[HangFinding]:
    """The findings about slow ranks, after a change in the record. *clocks*: of nodes n1 and n2."""
    samples = copy.deepcopy(raw(name)[:looks])
    change(samples)
    for one in (one for sample in samples for one in sample):
        clock = clocks[int(one["host"] == "n2")]
        if clock:
            one["clock"] = clock
            shift_times(one, clock["ahead_ns"])
    return [one for one in judge_job(hang_records.read(samples), STALLED) if one.code == "HG-163"]


def shift_times(rank: Any, nanoseconds: int) -> None:
    """As if the clock of its node were ahead."""
    rank["taken_ns"] += nanoseconds
    for entry in rank["entries"]:
        entry["created_ns"] += nanoseconds
    for part in rank["arrivals"]:
        part["created_us"] += nanoseconds // 1000


def test_every_record_is_known() -> None:
    assert {name_record(path) for path in SLOW.glob("*.gz")} >= REASONS.keys()
    assert all(name.startswith("healthy_") for name in HEALTHY)


@pytest.mark.parametrize("name", REASONS)
def test_a_slow_rank_is_named_with_its_reason(name: str) -> None:
    (found,) = judge(name)
    ranks, reason = REASONS[name]
    assert found.ranks == ranks
    why = found.cause.partition(" Reason: ")[2]
    assert why.startswith(reason)
    assert bool(found.check) == why.startswith("unknown")
    assert found.fix
    assert found.severity == "warning"
    assert set(found.hosts) == {f"n{rank * 2 // len(raw(name)[0]) + 1}" for rank in ranks}


@pytest.mark.parametrize("name", HEALTHY)
def test_no_rank_of_a_healthy_job_is_named(name: str) -> None:
    samples = hang_records.load_slow(name)
    for looks in (2, 3, 4):
        found = judge_job(samples[:looks], STALLED)
        assert {one.code for one in found} <= {"HG-162"}, found


@pytest.mark.parametrize("name", [*REASONS, *HEALTHY])
def test_clocks_that_differ_by_seconds_change_nothing(name: str) -> None:
    expected = [(one.ranks, one.waiting, one.seen) for one in judge(name)]
    for ahead in (7_300_000_000, -86_400_000_000_000):
        clocks: Any = (
            {"ahead_ns": 0, "doubt_ns": 200_000},
            {"ahead_ns": ahead, "doubt_ns": 200_000},
        )
        assert [
            (one.ranks, one.waiting, one.seen) for one in judge(name, clocks=clocks)
        ] == expected


def test_without_a_comparison_of_the_clocks_there_is_no_finding() -> None:
    assert judge("slow_sleep", clocks=(None, None)) == []
    assert judge("slow_sleep", clocks=({"ahead_ns": 0, "doubt_ns": 0}, None)) == []


def test_ranks_of_one_node_need_no_comparison() -> None:
    def one_node(samples: Any) -> None:
        for one in (one for sample in samples for one in sample):
            one["host"] = "n1"

    (found,) = judge("slow_sleep", one_node, clocks=(None, None))
    assert found.ranks == (1,)


@pytest.mark.parametrize("doubt", [25_000_000, 10 * SECOND])
def test_a_lag_below_the_doubt_of_the_clocks_does_not_count(doubt: int) -> None:
    clock: ClockReading = {"ahead_ns": 0, "doubt_ns": doubt}
    assert judge("slow_sleep", clocks=(clock, clock)) == []


def test_the_share_is_the_time_that_the_others_wait() -> None:
    """14 ms for all ranks and 40 ms more for rank 1: nearly three quarters, and less on a busy machine."""
    (found,) = judge("slow_sleep")
    assert 0.6 <= found.share <= 0.75
    assert f"rank 0 waits {found.share:.0%} of the time for rank 1" in found.cause
    assert found.as_dict()["share"] == round(found.share, 3)
    assert "typically 40 ms behind the others" in found.seen


def test_a_whole_job_of_two_samples_suffices() -> None:
    (found,) = judge("slow_sleep", looks=2)
    assert found.ranks == (1,)
    assert judge("slow_sleep", looks=1) == []


def test_the_progress_that_a_slow_job_makes_is_folded_under_it() -> None:
    (found,) = judge_job(hang_records.load_slow("slow_sleep"), STALLED)
    assert [one.code for one in found.follows] == ["HG-162"]


def test_exchanged_ranks_exchange_the_finding() -> None:
    def exchange(samples: Any) -> None:
        for sample in samples:
            for one in sample:
                one["rank"] = 1 - one["rank"]
                one["host"] = f"n{one['rank'] + 1}"

    (found,) = judge("slow_sleep", exchange)
    assert (found.ranks, found.waiting) == ((0,), (1,))


# --- reasons that this machine cannot make, as changes of a job with an unknown one -----------------


def of_sample(change: Callable[[int, Any], object]) -> Callable[[Any], object]:
    """Change rank 1 in each sample."""

    def on_all(samples: Any) -> None:
        for number, sample in enumerate(samples):
            change(number, sample[1])

    return on_all


GPU = {"index": 3, "uuid": "GPU-aa", "busy": 97, "watts": 300, "memory": 1 << 30}
FAST = {**GPU, "clock": 1980, "clock_most": 1980, "slowed_by": 0, "lanes": 16, "lanes_most": 16}


def with_gpus(**mine: Any) -> Callable[[Any], object]:
    """Each rank has a GPU, and that of rank 1 differs."""

    def change(samples: Any) -> None:
        for sample in samples:
            for one in sample:
                one["gpus"] = [{**FAST, **(mine if one["rank"] == 1 else {})}]

    return change


def connect(number: int, rank: Any) -> None:
    """1,000 segments a second, of which 20 were sent again."""
    ends = {"here": "10.0.0.2", "port": 7, "peer": "10.0.0.1", "peer_port": 8, "unacked": 0}
    rank["connections"] = [
        {
            **ends,
            **{"unread": 0, "retransmits": 0, "zero_window": False, "segments_in": 0},
            "segments_out": 3000 * number,
            "resent": 60 * number,
        }
    ]


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (
            of_sample(
                lambda number, one: one.update(
                    node_cpu={"ticks": 1000 * number, "stolen": 210 * number}
                )
            ),
            "the hypervisor gave 21% of its node's CPU time to other machines (steal)",
        ),
        (
            of_sample(
                lambda number, one: one.update(
                    paging={"swapped": 6 << 30, "from_disk": 3000 * number}
                )
            ),
            "6144 MiB of its memory are in swap, and it reads ",
        ),
        (with_gpus(clock=1095, slowed_by=0x40), "GPU 3 runs at 1095 of 1980 MHz: it is too hot"),
        (with_gpus(clock=1095, slowed_by=0x4), "GPU 3 runs at 1095 of 1980 MHz: its power limit"),
        (with_gpus(clock=1095), "GPU 3 runs at 1095 of 1980 MHz: the reason is not known"),
        (with_gpus(clock=300, busy=0), "unknown: it computes ("),
        (with_gpus(slowed_by=0x1), "unknown: it computes ("),
        (with_gpus(lanes=4), "GPU 3 has 4 of 16 PCIe lanes"),
        (with_gpus(others=[77, 4100]), "GPU 3 is shared with process 77 and 1 more"),
        (with_gpus(others=[4101]), "unknown: it computes ("),
        (of_sample(connect), "its TCP connections sent 180 of 9000 segments again"),
    ],
)
def test_a_measured_reason_is_reported(change: Callable[[Any], object], reason: str) -> None:
    (found,) = judge("slow_ddp", change)
    assert found.cause.partition(" Reason: ")[2].startswith(reason)


def test_a_slow_rank_among_a_thousand_is_named_within_seconds() -> None:
    everybody = list(range(1000))
    samples = []
    for sample in hang_records.load_slow("slow_of_four")[:2]:
        parts = [sample[2 if rank == 5 else rank % 2] for rank in everybody]
        group = {**sample[0]["groups"][0], "ranks": everybody}
        samples.append(
            [
                {**one, "rank": rank, "world": 1000, "host": f"n{rank // 8}", "groups": [group]}
                for rank, one in enumerate(parts)
            ]
        )
    begun = time.process_time()
    (found,) = judge_job(samples, STALLED)  # type: ignore[arg-type]  # ranks of four, changed
    assert time.process_time() - begun < 10
    assert (found.code, found.ranks, found.hosts) == ("HG-163", (5,), ("n0",))


# --- GPUs: Gloo's times in the form of NCCL's ---------------------------------------------------


def on_gpus(samples: Any) -> None:
    """The CPUs are ahead, so all of them enter at once. Each GPU is in a collective until the last one comes."""
    for sample in samples:
        times = []
        parts = [one["arrivals"][0] for one in sample]
        for part in parts:
            created = [part["created_us"]]
            for gap in part["gaps_us"]:
                created.append(created[-1] - gap)
            times.append(dict(zip(part["numbers"], created, strict=True)))
        common = sorted(set.intersection(*map(set, times)), reverse=True)
        last = [max(one[number] for one in times) for number in common]
        for part, own in zip(parts, times, strict=True):
            part["numbers"], part["created_us"] = common, last[0]
            part["gaps_us"] = [later - before for later, before in itertools.pairwise(last)]
            part["durations_us"] = [
                at - own[number] + 900 for number, at in zip(common, last, strict=True)
            ]


@pytest.mark.parametrize("name", ["slow_sleep", "slow_tenth", "slow_of_four", "slow_node"])
def test_a_slow_gpu_is_named_by_the_durations_on_all_gpus(name: str) -> None:
    (found,) = judge(name, on_gpus, clocks=(None, None))
    (expected,) = judge(name)
    assert found.ranks == expected.ranks
    assert found.share == pytest.approx(expected.share, abs=0.05)


def test_without_durations_cpus_that_are_ahead_show_nothing() -> None:
    def hidden(samples: Any) -> None:
        on_gpus(samples)
        for part in (part for sample in samples for one in sample for part in one["arrivals"]):
            del part["durations_us"]

    assert judge("slow_sleep", hidden) == []


@pytest.mark.parametrize("name", [one for one in HEALTHY if "pipeline" not in one])
def test_no_gpu_of_a_healthy_job_is_named(name: str) -> None:
    if all(len(one["arrivals"]) == 1 for sample in raw(name) for one in sample):
        assert judge(name, on_gpus, clocks=(None, None)) == []


# --- records that lie -----------------------------------------------------------------------------


def of_rank_1(change: Callable[[Any], object]) -> Callable[[Any], object]:
    def on_all(samples: Any) -> None:
        for sample in samples:
            for part in sample[1]["arrivals"]:
                change(part)

    return on_all


@pytest.mark.parametrize(
    "change",
    [
        lambda part: part.update(created_us=0),
        lambda part: part.update(created_us=-(1 << 62)),
        lambda part: part.update(gaps_us=[0] * len(part["gaps_us"])),
        lambda part: part.update(gaps_us=[-gap for gap in part["gaps_us"]]),
        lambda part: part.update(gaps_us=[1 << 62] * len(part["gaps_us"])),
        lambda part: part.update(numbers=[7] * len(part["numbers"])),
        lambda part: part.update(numbers=[], gaps_us=[]),
        lambda part: part.update(gaps_us=part["gaps_us"][:3]),
        lambda part: part.update(group="another"),
        lambda part: part.update(numbers=[one + 100_000 for one in part["numbers"]]),
    ],
)
def test_damaged_times_give_no_finding(change: Callable[[Any], object]) -> None:
    assert judge("slow_sleep", of_rank_1(change)) == []
    assert judge("healthy_even", of_rank_1(change)) == []


def test_a_rank_without_a_record_makes_its_groups_unknown() -> None:
    def silent(samples: Any) -> None:
        for sample in samples:
            sample[2].update(entries=[], arrivals=[])
            sample[2]["missing"] = [{"what": "recorder", "why": "it does not answer"}]

    assert judge("slow_of_four", silent) == []


def test_a_record_with_too_many_times_is_refused() -> None:
    one = copy.deepcopy(raw("slow_sleep")[0][0])
    one["arrivals"][0]["gaps_us"] = [1] * (recorder.MOST_ARRIVALS + 1)
    with pytest.raises(recorder.RefusedRecordError):
        ask.parse_hang_rank(one, "n1")
    one["arrivals"] = [{**raw("slow_sleep")[0][0]["arrivals"][0]}] * (recorder.MOST_GROUPS + 1)
    with pytest.raises(recorder.RefusedRecordError):
        ask.parse_hang_rank(one, "n1")


# --- the parts ------------------------------------------------------------------------------------


def test_overlapping_collectives_are_one_round() -> None:
    """Three buckets of a step, which rank 1 enters 30 later: the step loses 30, not 90."""
    times = {0: {1: 0, 2: 10, 3: 20, 4: 100}, 1: {1: 30, 2: 40, 3: 50, 4: 100}}
    rounds = lag.build_rounds(times, {0: (0,), 1: (1,)})
    assert [(one.first, one.last, one.count) for one in rounds] == [(1, 3, 3), (4, 4, 1)]
    assert rounds[0].measure_wait([1]) == 30
    assert rounds[0].measure_wait([0]) == 0
    assert rounds[0].find_last() == (1, 30)


def test_the_chance_is_that_of_a_coin() -> None:
    assert lag.get_chance(20, 20, 2) == pytest.approx(2**-20)
    assert lag.get_chance(20, 0, 2) == pytest.approx(1)
    assert lag.get_chance(3, 2, 2) == pytest.approx(0.5)
    assert lag.get_chance(5000, 4900, 2) < 1e-300


@pytest.mark.parametrize(("world", "which"), [(4, (1, 3)), (8, (2, 5)), (16, (0, 7, 9))])
def test_several_slow_ranks_are_named_together(world: int, which: tuple[int, ...]) -> None:
    for seed in range(10):
        found = simulate(world, "equal", seed, slow=0.05, which=which)
        assert found is not None
        assert found.ranks == which


def test_most_ranks_are_not_slower_than_the_others() -> None:
    assert simulate(4, "equal", 1, slow=0.05, which=(1, 2, 3)) is None


BUSY: dict[str, Callable[[random.Random, float], float]] = {
    "equal": lambda chance, _: max(0.005, chance.gauss(0.1, 0.01)),
    "varied": lambda chance, _: max(0.005, chance.gauss(0.1, 0.03)),
    "lognormal": lambda chance, _: 0.02 * chance.lognormvariate(0, 1),
    "heavy_tail": lambda chance, _: 0.02 * chance.paretovariate(1.2),
    "in_a_row": lambda _, state: 0.1 * math.exp(0.3 * state),
}


def simulate(
    world: int, busy: str, seed: int, slow: float = 0.0, which: tuple[int, ...] = (-1,)
) -> lag.SlowRanks | None:
    """A job of 256 blocking collectives on alike ranks. *slow*: seconds that some ranks take longer."""
    chance = random.Random(seed)  # noqa: S311 (no secret)
    times: dict[int, dict[int, int]] = {rank: {} for rank in range(world)}
    state, begun = [0.0] * world, 0.0
    late = {rank % world for rank in which}
    for number in range(1, 257):
        ends = []
        for rank in range(world):
            state[rank] = 0.8 * state[rank] + 0.6 * chance.gauss(0, 1)
            ends.append(begun + BUSY[busy](chance, state[rank]) + slow * (rank in late))
            times[rank][number] = int(ends[rank] * SECOND)
        begun = max(ends) + 0.001
    units = {rank: (rank,) for rank in range(world)}
    return lag.judge_rounds(lag.build_rounds(times, units), units, 0, "0")


@pytest.mark.parametrize("busy", BUSY)
@pytest.mark.parametrize("world", [2, 4, 16])
def test_no_rank_of_alike_ones_is_named(busy: str, world: int) -> None:
    assert [seed for seed in range(20) if simulate(world, busy, seed)] == []


@pytest.mark.parametrize("world", [2, 4, 16])
def test_a_rank_that_takes_longer_is_named_among_varied_ones(world: int) -> None:
    for seed in range(20):
        found = simulate(world, "varied", seed, slow=0.1)
        assert found is not None
        assert found.ranks == (world - 1,)
        assert (
            0.1 <= found.share <= 0.55
        )  # of the step of 0.2 s. Of many others one is late as well


def test_the_fastest_message_gives_the_clock() -> None:
    stamps = [(1_000, 0), (1_990, 1_000), (2_700, 2_000)]
    assert ask.compare_clocks(stamps) == {"ahead_ns": 1_000, "doubt_ns": 10}
    assert ask.compare_clocks(stamps[:1]) is None
