"""hang: many ranks."""

from __future__ import annotations

import copy
import sys

import hang_records
from hang_records import Samples

from fullmesh.causes.hang.job import HangFinding
from fullmesh.hang import recorder
from fullmesh.hang.judge import judge_job
from fullmesh.observed.hang import Rank


# -- many ranks
def many(count: int) -> Samples:
    """A job of four ranks as one of *count*, of which rank 2 and each 100th sleep."""
    samples = []
    for sample in hang_records.load("late_four"):
        ranks: list[Rank] = []
        for rank in range(count):
            one = copy.deepcopy(sample[2 if rank == 2 or rank % 100 == 99 else 0])
            one.update(rank=rank, world=count, host=f"n{rank // 8}")
            one["groups"][0]["ranks"] = list(range(count))
            one["entries"] = [
                {**copy.deepcopy(one["entries"][-1]), "number": n, "record": n, "retired": True}
                for n in range(40)
            ] + [
                {**entry, "number": entry["number"] + 40, "record": entry["record"] + 40}
                for entry in one["entries"]
            ]
            ranks.append(one)
        samples.append(ranks)
    return samples


def count_calls(samples: Samples) -> tuple[int, list[HangFinding]]:
    """Judge a job, and count the functions that this calls: unlike seconds, a number that repeats."""
    calls = 0

    def count(_frame: object, event: str, _argument: object) -> None:
        nonlocal calls
        calls += event == "call"

    sys.setprofile(count)
    try:
        found = judge_job(samples)
    finally:
        sys.setprofile(None)
    return calls, found


def differ(samples: Samples) -> Samples:
    """Let each rank enter with a size of its own."""
    for sample in samples:
        for one in sample:
            one["entries"][-1]["in_sizes"] = [[one["rank"]]]
            one["entries"][-1]["retired"] = False
    return samples


def test_the_work_for_512_ranks_grows_with_their_number() -> None:
    few, _ = count_calls(many(128))
    calls, (finding,) = count_calls(many(512))
    assert calls < 6 * few
    assert (finding.code, finding.number) == ("HG-107", 44)
    assert finding.ranks == (2, 99, 199, 299, 399, 499)
    assert len(finding.waiting) == 506
    assert len(finding.cause) < 300


def test_work_for_512_differing_ranks_grows_linearly() -> None:
    few, _ = count_calls(differ(many(128)))
    calls, found = count_calls(differ(many(512)))
    assert calls < 6 * few
    assert found[0].code == "HG-122"
    assert len(found[0].cause) < 400


def test_many_ranks_that_ended_alike_are_one_finding() -> None:
    """All others lost the connection to the one that was killed, and the launcher ended some."""
    samples = hang_records.load("killed")
    for sample in samples:
        witness, killed = sample
        sample[:] = [
            {**copy.deepcopy(witness), "rank": rank, "world": 512, "host": f"n{rank // 8}"}
            for rank in range(512)
        ]
        for one in sample[300:]:
            one.update(raised=None, exit_code=-15)
        sample[77].update(copy.deepcopy(killed), rank=77, host="n9")
    (finding,) = judge_job(samples)
    assert (finding.code, finding.ranks, finding.hosts) == ("HG-132", (77,), ("n9",))
    assert [(one.code, len(one.ranks)) for one in finding.follows] == [
        ("HG-135", 212),
        ("HG-134", 299),
    ]


def test_a_cluster_that_does_not_answer_is_one_finding() -> None:
    samples = many(512)
    for sample in samples:
        for one in sample[8:]:
            one.update(process="unasked", entries=[], threads=[], native={**recorder.NO_NATIVE})
            one["missing"] = [{"what": "process", "why": hang_records.WHY}]
    sleeper, silent = judge_job(samples)
    assert (sleeper.code, sleeper.ranks) == ("HG-107", (2,))
    assert (silent.code, len(silent.ranks), len(silent.hosts)) == ("HG-151", 504, 63)
    assert "ranks 8-511 (n1, n2, n3, n4 and 59 more) cannot be queried" in silent.cause


def test_of_many_alike_the_first_ones_stand_at_the_top() -> None:
    """Every rank is busy with another line."""
    samples = many(100)
    for sample in samples:
        for rank, one in enumerate(sample[1:], 1):
            one.update(copy.deepcopy(hang_records.load("late_data")[0][1]), rank=rank, world=100)
            one["threads"][0]["frames"][0]["line"] = rank
    found = judge_job(samples)
    assert [one.code for one in found] == ["HG-101"] * 8
    assert len(found[-1].follows) == 91
