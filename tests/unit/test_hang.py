"""Hanging jobs: what real ranks said is judged right, every rule fires for one of them, and the order never matters."""

from __future__ import annotations

import copy
import json
import random
import sys
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import hang_records
import pytest
from causes.cases import JOB_CHANGES, JOBS, LAB_JOBS
from hang_records import RECORDED, Samples
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from fullmesh import cli
from fullmesh.causes.hang.job import CAUSE, HangFinding, JobSample, ObservedJob
from fullmesh.causes.hang.job import format_ranks as in_words
from fullmesh.hang import recorder
from fullmesh.hang.judge import hang_finding_sort_key, judge_job, load_hang_causes
from fullmesh.observed.hang import Rank

ASKED = ("HG-152", "HG-181", "HG-183", "HG-184", "HG-185")  # the verb's, test_hang_ask.py
READ = ("HG-171", "HG-172", "HG-173", "HG-174")  # a file's, test_hang_recorder.py
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
    """What a second look adds is that a job goes on."""
    samples = hang_records.load(name)
    if JOBS[name][0][0] not in NOTHING_WRONG:
        assert [one[:2] for one in heads(samples[-1:])] == [one[:2] for one in JOBS[name]]


@pytest.mark.parametrize("name", JOB_CHANGES)
def test_one_change_gives_its_cause(name: str) -> None:
    expected, record, change = JOB_CHANGES[name]
    assert [code for code, *_ in heads(hang_records.changed(record, change))] == expected


def test_every_job_that_was_recorded_is_judged() -> None:
    assert {path.name.partition(".")[0] for path in RECORDED.glob("*.gz")} == {*JOBS, "slow"}


def worlds() -> list[ObservedJob]:
    return [
        *(job(hang_records.load(name)) for name in (*JOBS, "slow")),
        *(job(hang_records.changed(record, change)) for _, record, change in JOB_CHANGES.values()),
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
    """So nothing explains itself, and the order of the findings does not matter."""
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


def test_a_silent_rank_is_a_cause_if_others_wait_for_it() -> None:
    (finding,) = judge_job(hang_records.changed(*JOB_CHANGES["a rank that is not asked"][1:]))
    assert (finding.severity, finding.waiting) == (CAUSE, (0, 1, 3))

    def elsewhere(samples: Any) -> None:
        """A rank that is in no group of those that stand."""
        for sample in samples:
            nothing = recorder.make_recorded_rank(4, [], [])
            nothing.update(process="unasked", missing=[{"what": "process", "why": "no route"}])
            sample.append(nothing)

    first, second = judge_job(hang_records.changed("late_four", elsewhere))
    assert (first.code, second.code, second.severity) == ("HG-107", "HG-151", "warning")


# -- what is said


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
    (finding,) = judge_job(hang_records.changed(*JOB_CHANGES["NFS does not answer"][1:]))
    assert "waits for an NFS server that does not answer" in finding.cause
    assert "/data/set" in finding.seen
    (finding,) = judge_job(hang_records.changed(*JOB_CHANGES["a disk does not answer"][1:]))
    assert "waits for a disk or file system that does not answer" in finding.cause


def test_a_chain_of_waiting_ends_at_its_first_cause() -> None:
    """Rank 2 waits for 3 in their own group, all others for both: only rank 3 is to be looked at."""
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


def test_gpu_activity_beside_a_hung_collective_is_shown() -> None:
    """NCCL's kernels wait at 100 %, with little power: that, or a driver that no longer answers, is evidence."""

    def busy(samples: Any) -> None:
        card = {"index": 3, "uuid": "GPU-aa", "busy": 100, "watts": 92, "memory": 1 << 30}
        for sample in samples:
            sample[0]["gpus"] = [card]
            sample[1]["missing"].append({"what": "gpus", "why": "nvidia-smi does not answer"})

    (finding,) = judge_job(hang_records.changed("network", busy))
    assert "GPU 3 of rank 0: a kernel runs 100 % of the time, 92 W" in finding.seen
    assert "rank 1: nvidia-smi does not answer" in finding.seen


def test_a_network_hang_refers_to_the_diagnosis() -> None:
    finding = only("network")
    assert "all_reduce 169" in finding.cause
    assert "./fullmesh diagnose" in finding.check


def test_if_some_ranks_leave_a_collective_the_others_are_named() -> None:
    def out(samples: Any) -> None:
        for sample in samples:
            sample[1]["entries"][-1]["retired"] = True

    (finding,) = judge_job(hang_records.changed("network", out))
    assert (finding.code, finding.ranks) == ("HG-161", (0,))
    assert "rank 0 does not come out, while rank 1 came out of it" in finding.cause


def test_the_line_is_the_users_own_not_a_packages() -> None:
    """Lightning stands between the script and what it calls."""

    def wrapped(samples: Any) -> None:
        for sample in samples:
            frames = sample[1]["threads"][0]["frames"]
            inside = {"line": 7, "name": "run", "text": "self.advance()"}
            place = "/home/user/venv/lib/python3.11/site-packages/lightning/loops/fit.py"
            frames.insert(0, {"file": place, **inside})

    (finding,) = judge_job(hang_records.changed("late_data", wrapped))
    assert (finding.code, finding.place) == ("HG-101", "/home/user/data.py:20")


def test_the_cause_of_more_waiting_ranks_comes_first() -> None:
    first, second = judge_job(hang_records.load("late_two_causes"))
    assert sorted([first, second], key=hang_finding_sort_key) == [first, second]
    more = replace(second, waiting=(*second.waiting, 7))
    assert sorted([first, more], key=hang_finding_sort_key) == [more, first]


def test_a_rank_that_only_its_group_knows_is_missed() -> None:
    """Nobody says how many ranks there are, and the answer of one is not there."""

    def lost(samples: Any) -> None:
        for sample in samples:
            del sample[3]
            for one in sample:
                one["world"] = 0

    first, second = judge_job(hang_records.changed("late_four", lost))
    assert (first.code, first.ranks) == ("HG-107", (2,))
    assert (second.code, second.ranks, second.severity) == ("HG-151", (3,), CAUSE)


def test_the_default_group_includes_ranks_that_entered_nothing() -> None:
    """As with Gloo's own record, which does not tell who is in a group."""

    def nothing(samples: Any) -> None:
        for sample in samples:
            sample[1]["entries"] = []
            for one in sample:
                one["groups"] = []

    (finding,) = judge_job(hang_records.changed("late_sleep", nothing))
    assert (finding.code, finding.ranks) == ("HG-107", (1,))
    assert "it entered none" in finding.seen


def test_a_gpu_that_has_not_started_is_reported_once() -> None:
    def begun(samples: Any) -> None:
        for sample in samples:
            sample[2] = {**copy.deepcopy(sample[0]), "rank": 2, "host": "n2"}
            for one in sample:
                one["entries"][-1].update(kind="nccl:all_reduce", state="started")
            sample[2]["entries"][-1]["state"] = "scheduled"

    (finding,) = judge_job(hang_records.changed("late_four", begun))
    assert (finding.code, finding.ranks, finding.waiting) == ("HG-111", (2,), (0, 1, 3))
    assert [one.code for one in finding.follows] == ["HG-161"]


# -- what is no hang


def test_operations_younger_than_the_limit_are_not_waited_in() -> None:
    for name in ("late_sleep", "late_four", "kinds", "network", "groups_crossed"):
        assert heads(hang_records.load(name), stalled=60) == []


def test_a_healthy_job_gives_no_finding_in_any_sample() -> None:
    for name in ("healthy", "healthy_4", "long_step"):
        for sample in hang_records.load(name):
            assert heads([sample], stalled=5) == []


def test_progress_in_another_sample_is_no_hang() -> None:
    """At the first look rank 0 waits for rank 1, at the second for something later: the job goes on."""
    samples = hang_records.load("slow")
    assert "HG-107" in [code for code, *_ in heads(samples[:1])]
    assert [code for code, *_ in heads(samples[:2])] == ["HG-162"]


def test_the_rank_that_is_always_last_is_named_with_line() -> None:
    (finding,) = judge_job(hang_records.load("slow"))
    assert (finding.code, finding.ranks, finding.severity) == ("HG-163", (1,), "warning")
    assert finding.place == "/home/user/train.py:12"
    assert [one.code for one in finding.follows] == ["HG-162"]


def test_now_one_now_another_is_not_slow() -> None:
    def swapped(samples: Any) -> None:
        for sample in samples[::2]:
            sample[0], sample[1] = (
                {**sample[1], "rank": 0, "host": "n1"},
                {**sample[0], "rank": 1, "host": "n2"},
            )

    assert "HG-163" not in [code for code, *_ in heads(hang_records.changed("slow", swapped))]


def test_sizes_may_differ_where_pieces_do() -> None:
    def gathers(samples: Any) -> None:
        for sample in samples:
            for one in sample:
                for entry in one["entries"]:
                    if entry["number"] == 4:
                        entry["kind"] = "gloo:gather"

    assert "HG-122" not in [code for code, *_ in heads(hang_records.changed("sizes", gathers))]


def test_shapes_may_differ_where_sizes_do_not() -> None:
    def shaped(samples: Any) -> None:
        for sample in samples:
            sample[0]["entries"][-1]["in_sizes"] = [[1024, 1024]]

    assert [code for code, *_ in heads(hang_records.changed("network", shaped))] == ["HG-161"]


def test_a_harmless_difference_is_no_finding() -> None:
    """Long before the ranks stand, all came out of a collective with different types."""

    def harmless(samples: Any) -> None:
        for sample in samples:
            sample[1]["entries"][1]["in_dtypes"] = ["Half"]

    found = heads(hang_records.changed("late_sleep", harmless))
    assert [code for code, *_ in found] == ["HG-107"]


def test_pending_async_work_does_not_make_a_sleeper_wait() -> None:
    """Its last collective is still open in the background, and its main thread sleeps: it is the cause."""

    def asynchronous(samples: Any) -> None:
        for sample in samples:
            sample[1]["entries"][-1]["retired"] = False

    found = heads(hang_records.changed("late_sleep", asynchronous))
    assert found[0][:2] == ("HG-107", (1,))


def test_a_subgroup_is_not_waited_in_by_those_outside() -> None:
    """Ranks 0 and 1 never enter the group of 2 and 3, also where nobody says who is in it."""

    def unknown(samples: Any) -> None:
        for sample in samples:
            for one in sample:
                one["groups"] = []

    assert only("late_chain").ranks == (3,)
    assert [one[:2] for one in heads(hang_records.changed("late_chain", unknown))] == [
        ("HG-107", (3,))
    ]


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


def test_ranks_in_words() -> None:
    assert in_words([3]) == "rank 3"
    assert in_words([0, 2, 3, 4, 7, 8]) == "ranks 0, 2-4, 7, 8"
    assert in_words(list(range(0, 60, 2))) == "ranks 0, 2, 4, 6, 8, 10, 12, 14 and 22 more"


# -- pages and explain-log


def test_every_code_has_a_page() -> None:
    for cause in load_hang_causes().values():
        assert cause.page.why


def explained(argv: list[str], capsys: pytest.CaptureFixture[str]) -> tuple[int, str, str]:
    code = cli.main(["explain-log", *argv])
    out, err = capsys.readouterr()
    return code, out, err


def dumps(name: str, ranks: int = 2) -> list[str]:
    return [str(RECORDED / f"{name}_{rank}") for rank in range(ranks)]


def test_explain_log_reads_dumps(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = explained(dumps("groups_crossed"), capsys)
    assert code == 1
    assert "1. [HG-124] ranks 0, 1 entered two groups in opposite order" in out
    assert "all_reduce 2 of tensor at /home/user/train.py:16" in out
    assert "page:     ./fullmesh explain HG-124" in out
    assert "2 logs read" in out


def test_explain_log_reads_torchs_json(capsys: pytest.CaptureFixture[str]) -> None:
    files = [str(RECORDED / f"late_sleep-{rank}.json") for rank in (0, 1)]
    code, out, _ = explained(["--json", *files], capsys)
    (finding,) = json.loads(out)["findings"]
    assert (code, finding["code"], finding["where"]) == (1, "HG-110", "rank 1")
    assert finding["evidence"] == [
        {"file": files[1], "line": 0, "rank": "1", "text": "it entered 3 last"}
    ]
    assert finding.keys() == {
        *("code", "severity", "cause", "where", "evidence"),
        *("count", "prove", "fix", "page", "follows"),
    }


def test_explain_log_reads_collector_output(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    files = []
    for one in hang_records.raw("late_lock")[-1]:
        files.append(tmp_path / f"answer{one['rank']}.json")
        files[-1].write_text(json.dumps(one))
    code, out, _ = explained([str(path) for path in files], capsys)
    assert code == 1
    assert "[HG-108] rank 1 (n2) waits for a lock" in out


def test_records_and_logs_are_judged_together(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log = tmp_path / "rank0.log"
    log.write_text("RuntimeError: CUDA error: out of memory\n[rank0]: connection refused\n" * 2)
    alone = explained([str(log)], capsys)[1].count("[LG-")
    code, out, _ = explained([*dumps("kinds"), str(log)], capsys)
    assert code == 1
    assert "1. [HG-121]" in out
    assert out.count("[LG-") == alone


def test_a_healthy_record_is_no_problem(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Both were between two steps."""
    files = []
    for rank in (0, 1):
        data = json.loads((RECORDED / f"healthy-{rank}.json").read_text())
        data["entries"] = [one for one in data["entries"] if one["retired"]][:20]
        files.append(tmp_path / f"dump_{rank}.json")
        files[-1].write_text(json.dumps(data))
    code, out, _ = explained([str(path) for path in files], capsys)
    assert code == 0
    assert "nothing wrong found" in out


def test_two_records_of_one_rank_count_once(capsys: pytest.CaptureFixture[str]) -> None:
    both = [str(RECORDED / "late_sleep-1.json"), str(RECORDED / "late_sleep-0.json")]
    code, out, _ = explained([*dumps("late_sleep"), *both], capsys)
    assert code == 1
    assert out.count("[HG-110]") == 1
    assert "is also a record of rank 1" in out
    # The one with stacks is taken, whichever comes first.
    assert "/home/user/train.py:19" in explained([*both, *dumps("late_sleep")], capsys)[1]


def test_a_record_that_is_refused_does_not_hide_the_others(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bad = tmp_path / "dump_7"
    bad.write_bytes(b"\x80\x02cos\nsystem\n.")
    code, out, err = explained([str(bad), *dumps("kinds")], capsys)
    assert (code, "[HG-121]" in out) == (1, True)
    assert "[HG-171]" in err
    assert explained([str(bad)], capsys)[0] == 2
    cut = tmp_path / "dump_8"
    cut.write_bytes((RECORDED / "kinds_0").read_bytes()[:500])
    code, _, err = explained([str(cut)], capsys)
    assert (code, "[HG-173]" in err) == (2, True)


def test_a_record_cannot_control_the_terminal(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data = json.loads((RECORDED / "kinds-0.json").read_text())
    for entry in data["entries"]:
        entry["profiling_name"] = "gloo:\x1b]0;x\x07\u202e" + entry["profiling_name"]
        entry["process_group"][1] = "\x1b[2J"
    bad = tmp_path / "dump_0"
    bad.write_text(json.dumps(data))
    out = explained([str(bad), str(RECORDED / "kinds-1.json")], capsys)[1]
    assert "[HG-121]" in out
    assert "\x1b" not in out
    assert "\u202e" not in out


def test_a_page_is_explained(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["explain", "HG-124"]) == 0
    assert "More: docs/hang.md" in capsys.readouterr().out


def test_a_rank_without_number_gets_the_next_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    files = []
    for rank, name in enumerate(("first", "second")):
        files.append(tmp_path / name)
        files[-1].write_bytes((RECORDED / f"kinds_{rank}").read_bytes())
    _, out, _ = explained([str(path) for path in files], capsys)
    assert "broadcast on rank 0" in out
    assert "barrier on rank 1" in out


def test_a_collector_may_omit_unknown_fields() -> None:
    """A rank of which there is nothing but a number, as for a node that does not answer."""
    nothing: Rank = recorder.make_recorded_rank(1, [], [])
    nothing.update(process="unasked", missing=[{"what": "process", "why": "no route to host"}])
    (finding,) = judge_job([[hang_records.load("late_sleep")[-1][0], nothing]])
    assert (finding.code, finding.ranks) == ("HG-151", (1,))
    assert "no route to host" in finding.cause


BENT = st.sampled_from(
    ["gone", "unasked", "no entries", "no threads", "swap", "number", "group", "drop", "raised"]
)


@settings(
    max_examples=250,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
    phases=(Phase.explicit, Phase.generate),  # answers are large, to make one small takes minutes
)
@given(st.data())
def test_no_answers_of_ranks_make_it_fall_over(data: st.DataObject) -> None:
    """Ranks of different jobs, some gone, some silent, with numbers and groups that fit nothing."""
    samples = [
        [
            copy.deepcopy(data.draw(st.sampled_from(everybody())))
            for _ in range(data.draw(st.integers(0, 5)))
        ]
        for _ in range(data.draw(st.integers(1, 5)))
    ]
    for sample in samples:
        for number, one in enumerate(sample):
            one["rank"] = data.draw(st.integers(0, 6)) if data.draw(st.booleans()) else number
            for what in data.draw(st.lists(BENT, max_size=3)):
                bend(one, what, data.draw(st.integers(0, 9)))
    found = judge_job(samples, data.draw(st.sampled_from([0.0, 1.0, 60.0])))
    json.dumps([one.as_dict() for one in found])
    assert all(one.cause and one.fix for one in found)


@cache
def everybody() -> list[Rank]:
    return [one for name in JOBS for one in hang_records.load(name)[-1]]


def bend(one: Rank, what: str, number: int) -> None:
    if what == "gone":
        one.update(process="gone", exit_code=[None, 0, 1, -9, -15, -99][number % 6])
    elif what == "unasked":
        one.update(process="unasked", missing=[{"what": "process", "why": ""}])
    elif what == "no entries":
        one["entries"] = []
    elif what == "no threads":
        one["threads"] = []
    elif what == "swap":
        one["entries"] = one["entries"][::-1]
    elif what == "drop":
        one["entries"] = one["entries"][number:]
    elif what == "group":
        one["groups"] = [{"name": "1", "desc": "x", "ranks": [number, 7 * number]}]
    elif what == "raised":
        one["raised"] = {"text": ["", "Connection closed by peer", "x"][number % 3], "frames": []}
    elif one["entries"]:
        one["entries"][-1].update(
            number=number, p2p=number % 2 == 0, kind=f"nccl:send {number}->{number % 3}"
        )
        one["entries"][0].update(in_sizes=[[number]], retired=number % 3 == 0, state="started")
