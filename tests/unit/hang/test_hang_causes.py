"""hang: the cause of recorded jobs."""

from __future__ import annotations

import copy
import random
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import hang_records
import pytest
from causes.cases import JOB_CHANGES, JOBS, LAB_JOBS
from hang_records import RECORDED, Samples

from fullmesh.causes.hang.job import CAUSE, HangFinding, JobSample, ObservedJob
from fullmesh.hang import recorder
from fullmesh.hang.judge import hang_finding_sort_key, judge_job, load_hang_causes

ASKED = ("HG-152", "HG-181", "HG-183", "HG-184", "HG-185")  # of the verb, see test_hang_ask.py


READ = ("HG-171", "HG-172", "HG-173", "HG-174")  # of a file, see test_hang_recorder.py


NOTHING_WRONG = ("HG-162", "HG-163")


def heads(samples: Samples, stalled: float = 0.0) -> list[tuple[str, tuple[int, ...], str]]:
    return [(one.code, one.ranks, one.place) for one in judge_job(samples, stalled)]


def only(name: str) -> HangFinding:
    (finding,) = judge_job(hang_records.load(name))
    return finding


def job(samples: Samples, stalled: float = 0.0) -> ObservedJob:
    return ObservedJob(
        [JobSample({one["rank"]: one for one in sample}) for sample in samples], stalled
    )


@pytest.mark.parametrize("name", JOBS)
def test_a_real_job_gives_its_cause(name: str) -> None:
    found = judge_job(hang_records.load(name))
    assert [(one.code, one.ranks, one.place) for one in found] == JOBS[name]
    for finding in found:
        assert finding.seen
        assert finding.fix
        assert (finding.severity == CAUSE) == (finding.code not in NOTHING_WRONG)
        assert all(
            f"n{rank * 2 // len(hang_records.load(name)[0]) + 1}" in finding.hosts
            for rank in finding.ranks
        ) or (finding.code in NOTHING_WRONG)


@pytest.mark.parametrize("name", JOBS)
def test_one_sample_suffices_for_a_hung_job(name: str) -> None:
    """A second sample only shows that a job continues."""
    samples = hang_records.load(name)
    if JOBS[name][0][0] not in NOTHING_WRONG:
        assert [one[:2] for one in heads(samples[-1:])] == [one[:2] for one in JOBS[name]]


@pytest.mark.parametrize("name", JOB_CHANGES)
def test_one_change_gives_its_cause(name: str) -> None:
    expected, record, change = JOB_CHANGES[name]
    assert [code for code, *_ in heads(hang_records.change_samples(record, change))] == expected


def test_every_job_that_was_recorded_is_judged() -> None:
    assert {path.name.partition(".")[0] for path in RECORDED.glob("*.gz")} == {*JOBS, "slow"}


def worlds() -> list[ObservedJob]:
    return [
        *(job(hang_records.load(name)) for name in (*JOBS, "slow")),
        job(hang_records.load_slow("slow_sleep")),
        *(
            job(hang_records.change_samples(record, change))
            for _, record, change in JOB_CHANGES.values()
        ),
    ]


def test_every_rule_fires() -> None:
    quiet = {code for code, cause in load_hang_causes().items() if cause.find}
    given_by_lab = {code for code, *_ in LAB_JOBS.values()}
    for world in worlds():
        quiet -= {code for code in quiet if any(find_by_code(code, world))}
    assert quiet <= given_by_lab


def find_by_code(code: str, world: ObservedJob) -> Iterator[bool]:
    find = load_hang_causes()[code].find
    assert find
    for one in find(world):
        assert one.code == code
        yield True


def test_every_code_is_given_by_a_record() -> None:
    given = {code for found in JOBS.values() for code, *_ in found} | {"HG-163"}
    given |= {code for expected, _, _ in JOB_CHANGES.values() for code in expected}
    given |= {code for code, *_ in LAB_JOBS.values()}
    assert load_hang_causes().keys() - given == {*READ, *ASKED}


def test_a_cause_explains_only_lighter_ones() -> None:
    """So no finding explains itself, and the order of the findings does not matter."""
    causes = load_hang_causes()
    for cause in causes.values():
        for code in (code for one in cause.explains for code in one.codes):
            assert causes[code].weight < cause.weight, (cause.code, code)


@pytest.mark.parametrize("name", ["late_two_causes", "late_chain", "kinds_four", "not_in_group"])
def test_the_order_of_the_answers_does_not_matter(name: str) -> None:
    samples = hang_records.load(name)
    expected = [one.as_dict() for one in judge_job(samples)]
    for seed in range(20):
        shuffled = copy.deepcopy(samples)
        for sample in shuffled:
            random.Random(seed).shuffle(sample)  # noqa: S311 (an order, no secret)
        assert [one.as_dict() for one in judge_job(shuffled)] == expected


def test_a_rank_without_an_answer_is_a_cause_if_others_wait() -> None:
    (finding,) = judge_job(
        hang_records.change_samples(*JOB_CHANGES["a rank that is not asked"][1:])
    )
    assert (finding.severity, finding.waiting) == (CAUSE, (0, 1, 3))

    def elsewhere(samples: Any) -> None:
        """A rank that is in no hung group."""
        for sample in samples:
            nothing = recorder.make_recorded_rank(4, [], [])
            nothing.update(process="unasked", missing=[{"what": "process", "why": "no route"}])
            sample.append(nothing)

    first, second = judge_job(hang_records.change_samples("late_four", elsewhere))
    assert (first.code, second.code, second.severity) == ("HG-107", "HG-151", "warning")


# -- the messages
def test_a_sleeping_rank_is_reported_with_the_waiting_ranks() -> None:
    finding = only("late_four")
    assert finding.cause == (
        "rank 2 (n2) sleeps at /home/user/train.py:15, while ranks 0, 1, 3 wait for 1 s in all_reduce 4 of"
        " default_pg at /home/user/train.py:19"
    )
    assert (finding.number, finding.kind) == (4, "gloo:all_reduce")
    assert finding.waiting == (0, 1, 3)
    assert "it entered 3 last" in finding.seen


def test_both_threads_of_a_deadlock_are_shown() -> None:
    seen = only("late_lock").seen
    assert "with files:" in seen
    assert "thread writer is at /home/user/train.py:18 (with buffers:)" in seen


def test_the_checkpoint_file_and_its_server_are_named() -> None:
    assert "write" in only("late_save").seen
    (finding,) = judge_job(hang_records.change_samples(*JOB_CHANGES["NFS does not answer"][1:]))
    assert "waits for an NFS server that does not answer" in finding.cause
    assert "/data/set" in finding.seen
    (finding,) = judge_job(hang_records.change_samples(*JOB_CHANGES["a disk does not answer"][1:]))
    assert "waits for a disk or file system that does not answer" in finding.cause


def test_a_chain_of_waiting_ends_at_its_first_cause() -> None:
    """Rank 2 waits for 3 in their own group, all others for both, so only rank 3 is named."""
    finding = only("late_chain")
    assert finding.ranks == (3,)
    assert finding.waiting == (0, 1, 2)


def test_both_sides_of_a_difference_are_shown_with_lines() -> None:
    assert only("kinds").cause == (
        "ranks 0, 1 call different collectives as number 4 of default_pg: broadcast on rank 0 (n1) at"
        " /home/user/train.py:12; barrier on rank 1 (n2) at /home/user/train.py:14"
    )
    assert "8 on rank 0 (n1)" in only("sizes").cause
    assert "6 on rank 1 (n2)" in only("sizes").cause
    assert "all_reduce 2 of tensor" in only("groups_crossed").cause
    assert "all_reduce 2 of pipeline" in only("groups_crossed").cause


def test_an_end_is_explained_and_lost_connections_follow() -> None:
    assert "SIGKILL" in only("killed").cause
    assert "SIGABRT" in only("aborted").cause
    assert "ranks gave different sizes or types" in only("aborted").check
    assert [one.code for one in only("exited").follows] == ["HG-134"]
    assert "ValueError: loss is NaN" in only("raised").cause
    assert "process is still there" in only("raised").cause


def test_gpu_activity_during_a_hung_collective_is_shown() -> None:
    """NCCL's kernels wait at 100 % with little power. This, or a driver that does not answer, is evidence."""

    def busy(samples: Any) -> None:
        gpu = {"index": 3, "uuid": "GPU-aa", "busy": 100, "watts": 92, "memory": 1 << 30}
        for sample in samples:
            sample[0]["gpus"] = [gpu]
            sample[1]["missing"].append({"what": "gpus", "why": "nvidia-smi does not answer"})

    (finding,) = judge_job(hang_records.change_samples("network", busy))
    assert "GPU 3 of rank 0: a kernel runs 100 % of the time, 92 W" in finding.seen
    assert "rank 1: nvidia-smi does not answer" in finding.seen


def test_an_rdma_port_that_loses_packets_is_shown_with_both_ends() -> None:
    def lose(samples: Any) -> None:
        hang_records.uses_rdma(samples, rail="rail1")
        for number, sample in enumerate(samples):
            sample[1]["rdma"][0]["now"]["errors"]["local_ack_timeout_err"] += 3 + number
            sample[0]["rdma"][0]["now"]["errors"]["out_of_sequence"] += 1

    (finding,) = judge_job(hang_records.change_samples("network", lose))
    assert "packets that n2 sends on rail1 (mlx5_1, ens2) are not acknowledged" in finding.cause
    count = 2 + len(hang_records.load("network"))
    assert f"n2 rail1 (mlx5_1, ens2): local_ack_timeout_err +{count}" in finding.seen
    assert "n1 mlx5_1 (ens2): out_of_sequence +1" in finding.seen


def test_a_nic_that_discards_packets_is_named() -> None:
    """The rank's start has no such counter, so both samples are compared."""

    def discard(samples: Any) -> None:
        hang_records.uses_rdma(samples, rail="rail1")
        for number, sample in enumerate(samples):
            sample[1]["rdma"][0]["now"]["errors"]["rx_prio3_discards"] = 100 + number
            sample[0]["rdma"][0]["now"]["errors"].update(
                rx_discards_phy=7, rx_crc_errors_phy=number
            )

    (finding,) = judge_job(hang_records.change_samples("network", discard))
    assert "the NIC of n2 discards packets that arrive on rail1 (mlx5_1, ens2)" in finding.cause
    assert "n2 rail1 (mlx5_1, ens2): rx_prio3_discards +1" in finding.seen
    assert "n1 mlx5_1 (ens2): rx_crc_errors_phy +1" in finding.seen
    assert "rx_discards_phy" not in finding.seen


def test_an_rdma_port_that_is_down_is_named() -> None:
    def cut(samples: Any) -> None:
        hang_records.uses_rdma(samples, state="DOWN")

    (finding,) = judge_job(hang_records.change_samples("network", cut))
    assert "mlx5_1 (ens2) of n2 is DOWN" in finding.cause


def test_an_rdma_address_with_another_entry_is_the_cause_of_a_stall() -> None:
    (finding,) = judge_job(hang_records.change_samples("network", hang_records.gid_moved))
    assert (finding.code, finding.ranks, finding.severity) == ("HG-165", (1,), CAUSE)
    assert [one.code for one in finding.follows] == ["HG-161"]
    assert (
        "10.82.0.11 of mlx5_1 (ens2) on n2 moved from entry 3 to 5 of the GID table"
        in finding.cause
    )
    assert (
        "mlx5_1:1: entry 3 had 10.82.0.11 when rank 1 started, now entry 5 has it" in finding.seen
    )
    assert "NCCL_IB_GID_INDEX" in finding.fix


def test_an_rdma_address_that_is_gone_has_to_be_added_first() -> None:
    def remove(samples: Any) -> None:
        hang_records.uses_rdma(samples, now={"gids": {}, "errors": {}})

    (finding,) = judge_job(hang_records.change_samples("network", remove))
    assert "10.82.0.11 of mlx5_1 (ens2) on n2 has left entry 3" in finding.cause
    assert finding.fix.startswith("add 10.82.0.11 to ens2 of n2, then ")


def test_an_rdma_address_that_moved_in_a_job_that_continues_is_a_warning() -> None:
    found = judge_job(hang_records.change_samples("healthy", hang_records.gid_moved))
    assert [(one.code, one.severity) for one in found if one.code == "HG-165"] == [
        ("HG-165", "warning")
    ]


def test_healthy_rdma_ports_give_no_finding_of_their_own() -> None:
    found = judge_job(hang_records.change_samples("network", hang_records.uses_rdma))
    assert [one.cause for one in found] == [only("network").cause]


def test_a_network_hang_refers_to_the_diagnosis() -> None:
    finding = only("network")
    assert "all_reduce 169" in finding.cause
    assert "./fullmesh diagnose" in finding.check


def test_if_some_ranks_leave_a_collective_the_others_are_named() -> None:
    def out(samples: Any) -> None:
        for sample in samples:
            sample[1]["entries"][-1]["retired"] = True

    (finding,) = judge_job(hang_records.change_samples("network", out))
    assert (finding.code, finding.ranks) == ("HG-161", (0,))
    assert "rank 0 does not come out, while rank 1 came out of it" in finding.cause


def test_the_line_is_the_users_own_not_a_packages() -> None:
    """Lightning is between the script and its callees."""

    def wrapped(samples: Any) -> None:
        for sample in samples:
            frames = sample[1]["threads"][0]["frames"]
            inside = {"line": 7, "name": "run", "text": "self.advance()"}
            place = "/home/user/venv/lib/python3.11/site-packages/lightning/loops/fit.py"
            frames.insert(0, {"file": place, **inside})

    (finding,) = judge_job(hang_records.change_samples("late_data", wrapped))
    assert (finding.code, finding.place) == ("HG-101", "/home/user/data.py:20")


def test_the_cause_of_more_waiting_ranks_comes_first() -> None:
    first, second = judge_job(hang_records.load("late_two_causes"))
    assert sorted([first, second], key=hang_finding_sort_key) == [first, second]
    more = replace(second, waiting=(*second.waiting, 7))
    assert sorted([first, more], key=hang_finding_sort_key) == [more, first]


def test_a_rank_that_only_its_group_knows_is_missed() -> None:
    """The world size is unknown, and the answer of one rank is missing."""

    def lost(samples: Any) -> None:
        for sample in samples:
            del sample[3]
            for one in sample:
                one["world"] = 0

    first, second = judge_job(hang_records.change_samples("late_four", lost))
    assert (first.code, first.ranks) == ("HG-107", (2,))
    assert (second.code, second.ranks, second.severity) == ("HG-151", (3,), CAUSE)


def test_the_default_group_includes_ranks_that_entered_nothing() -> None:
    """As with Gloo's own record, which does not list the members of a group."""

    def nothing(samples: Any) -> None:
        for sample in samples:
            sample[1]["entries"] = []
            for one in sample:
                one["groups"] = []

    (finding,) = judge_job(hang_records.change_samples("late_sleep", nothing))
    assert (finding.code, finding.ranks) == ("HG-107", (1,))
    assert "it entered none" in finding.seen


def test_a_gpu_that_has_not_started_is_reported_once() -> None:
    def begun(samples: Any) -> None:
        for sample in samples:
            sample[2] = {**copy.deepcopy(sample[0]), "rank": 2, "host": "n2"}
            for one in sample:
                one["entries"][-1].update(kind="nccl:all_reduce", state="started")
            sample[2]["entries"][-1]["state"] = "scheduled"

    (finding,) = judge_job(hang_records.change_samples("late_four", begun))
    assert (finding.code, finding.ranks, finding.waiting) == ("HG-111", (2,), (0, 1, 3))
    assert [one.code for one in finding.follows] == ["HG-161"]


# -- jobs that do not hang
def test_operations_younger_than_the_limit_are_not_waited_in() -> None:
    for name in ("late_sleep", "late_four", "kinds", "network", "groups_crossed"):
        assert heads(hang_records.load(name), stalled=60) == []


def test_a_healthy_job_gives_no_finding_in_any_sample() -> None:
    for name in ("healthy", "healthy_4", "long_step"):
        for sample in hang_records.load(name):
            assert heads([sample], stalled=5) == []


def test_progress_in_another_sample_is_no_hang() -> None:
    """In the first sample rank 0 waits for rank 1, in the second for a later operation: the job continues."""
    samples = hang_records.load("slow")
    assert "HG-107" in [code for code, *_ in heads(samples[:1])]
    assert [code for code, *_ in heads(samples[:2])] == ["HG-162"]


def test_sizes_may_differ_where_pieces_do() -> None:
    def gathers(samples: Any) -> None:
        for sample in samples:
            for one in sample:
                for entry in one["entries"]:
                    if entry["number"] == 4:
                        entry["kind"] = "gloo:gather"

    assert "HG-122" not in [
        code for code, *_ in heads(hang_records.change_samples("sizes", gathers))
    ]


def test_shapes_may_differ_where_sizes_do_not() -> None:
    def shaped(samples: Any) -> None:
        for sample in samples:
            sample[0]["entries"][-1]["in_sizes"] = [[1024, 1024]]

    assert [code for code, *_ in heads(hang_records.change_samples("network", shaped))] == [
        "HG-161"
    ]


def test_a_harmless_difference_is_no_finding() -> None:
    """Long before the hang, all ranks left a collective with different types."""

    def harmless(samples: Any) -> None:
        for sample in samples:
            sample[1]["entries"][1]["in_dtypes"] = ["Half"]

    found = heads(hang_records.change_samples("late_sleep", harmless))
    assert [code for code, *_ in found] == ["HG-107"]


def test_pending_async_work_does_not_make_a_sleeper_wait() -> None:
    """Its last collective is still open in the background, and its main thread sleeps: it is the cause."""

    def asynchronous(samples: Any) -> None:
        for sample in samples:
            sample[1]["entries"][-1]["retired"] = False

    found = heads(hang_records.change_samples("late_sleep", asynchronous))
    assert found[0][:2] == ("HG-107", (1,))


def test_a_subgroup_is_not_waited_in_by_those_outside() -> None:
    """Ranks 0 and 1 never enter the group of 2 and 3, even if its members are unknown."""

    def unknown(samples: Any) -> None:
        for sample in samples:
            for one in sample:
                one["groups"] = []

    assert only("late_chain").ranks == (3,)
    assert [one[:2] for one in heads(hang_records.change_samples("late_chain", unknown))] == [
        ("HG-107", (3,))
    ]
