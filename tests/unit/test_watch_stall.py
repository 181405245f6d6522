"""A stalled job under watch: the time and text of the report, and the controller's reaction."""

from __future__ import annotations

import copy
import os
import subprocess
import sys
import time
from contextlib import ExitStack

import fullmesh_hang as hang
import fullmesh_watch as watch
import fullmesh_watch_stall as watch_stall
import hang_records
import pytest
from ladder_samples import plan

from fullmesh.hang import ask, stalled
from fullmesh.hang.judge import judge_job
from fullmesh.observed.hang import NodeHang, Rank
from fullmesh.observed.watch import EventKind
from fullmesh.watch import remote

SECOND = watch_stall.SECOND


def age_ranks(ranks: list[Rank], seconds: float) -> list[Rank]:
    """Return the same unmoved ranks, sampled this many seconds after their last operation."""
    found = copy.deepcopy(ranks)
    for one in found:
        newest = max((entry["created_ns"] for entry in one["entries"]), default=0)
        one["taken_ns"] = newest + int(seconds * SECOND)
    return found


def make_old_ranks(ranks: list[Rank]) -> list[Rank]:
    """Return ranks that have finished many operations before."""
    for one in ranks:
        for entry in one["entries"]:
            entry["record"] += 1000
    return ranks


@pytest.fixture(params=["late_sleep", "gpu_asleep", "gpu_both"])
def ranks(request: pytest.FixtureRequest) -> list[Rank]:
    """Return a recorded job with Gloo, NCCL, or both: rank 1 sleeps, and rank 0 waits for it."""
    return make_old_ranks(hang_records.load(request.param)[-1])


def test_a_hung_job_is_reported_once_and_so_is_its_progress(ranks: list[Rank]) -> None:
    progress = watch_stall.JobProgress(60)
    assert progress.judge(age_ranks(ranks, 59)) is None
    assert progress.judge(age_ranks(ranks, 61)) == "stalled"
    assert progress.judge(age_ranks(ranks, 90)) is None
    assert progress.judge(age_ranks(ranks, 1)) == "moving"
    assert progress.judge(age_ranks(ranks, 1)) is None


def test_a_repeated_stall_is_reported_only_if_longer(
    ranks: list[Rank],
) -> None:
    progress = watch_stall.JobProgress(60)
    assert progress.judge(age_ranks(ranks, 70)) == "stalled"
    assert progress.judge(age_ranks(ranks, 100)) is None
    assert progress.judge(age_ranks(ranks, 1)) == "moving"
    assert progress.judge(age_ranks(ranks, 140)) is None
    assert progress.judge(age_ranks(ranks, 151)) == "stalled"


def test_a_job_of_long_steps_is_given_its_own_time(ranks: list[Rank]) -> None:
    """With 30 s between collectives, 100 s are no stall, but 150 s are."""
    for one in ranks:
        for number, entry in enumerate(one["entries"]):
            entry["created_ns"] = 1_000 * SECOND + number * 30 * SECOND
    progress = watch_stall.JobProgress(60)
    assert progress.judge(age_ranks(ranks, 100)) is None
    assert progress.judge(age_ranks(ranks, 151)) == "stalled"


def test_a_job_that_still_loads_its_model_is_given_more() -> None:
    young = hang_records.load("late_sleep")[-1]
    progress = watch_stall.JobProgress(60)
    assert progress.judge(age_ranks(young, 290)) is None
    assert progress.judge(age_ranks(young, 301)) == "stalled"


def test_healthy_and_silent_ranks_are_no_stall() -> None:
    progress = watch_stall.JobProgress(5)
    for sample in hang_records.load("healthy") + hang_records.load("long_step"):
        assert progress.judge(make_old_ranks(sample)) is None
    assert progress.judge([]) is None
    assert progress.judge([ask.make_absent_rank(0, 2, "n1", "", gone=False)]) is None


def test_the_rank_that_local_ranks_wait_for_comes_first(ranks: list[Rank]) -> None:
    said = watch_stall.describe_stall(age_ranks(ranks, 75), hang.describe_rank)
    assert said.startswith(
        f"[WA-109] No progress for 75 s. Ranks here: rank 1 (process {ranks[1]['pid']}): out of"
    )
    waits = next(one for one in ranks[0]["entries"] if not one["retired"])
    where = f"in {waits['kind']} {waits['number']} of default_pg for 75 s"
    assert f"rank 0 (process {ranks[0]['pid']}): {where}" in said
    assert "./fullmesh hang -i INVENTORY" in said


def test_a_thread_follows_the_job_until_its_end(ranks: list[Rank]) -> None:
    seen = [age_ranks(ranks, 1), age_ranks(ranks, 70), age_ranks(ranks, 71), age_ranks(ranks, 1)]
    reported: list[tuple[EventKind, str]] = []

    def look() -> NodeHang:
        if len(seen) == 1:
            follower.ended = True
        return {"host": "n1", "jobs": ["a"], "ranks": seen.pop(0)}

    follower = watch_stall.RankFollower(60, look)
    follower.progress.pause = lambda: 0.0  # type: ignore[method-assign]
    follower.run(lambda what, node: reported.append((what, node["jobs"][0])), pytest.fail)
    assert reported == [("stalled", "a")]
    assert seen == []


def test_a_failed_sample_is_reported_once_and_the_watch_continues(ranks: list[Rank]) -> None:
    answers: list[list[Rank] | None] = [
        None,
        None,
        age_ranks(ranks, 70),
        None,
        age_ranks(ranks, 71),
    ]
    reported: list[str] = []

    def look() -> NodeHang:
        follower.ended = len(answers) == 1
        found = answers.pop(0)
        if found is None:
            raise RecursionError("a rank answers with 100,000 brackets")
        return {"host": "n1", "jobs": ["a"], "ranks": found}

    follower = watch_stall.RankFollower(60, look)
    follower.progress.pause = lambda: 0.0  # type: ignore[method-assign]
    follower.run(lambda what, _: reported.append(what), reported.append)
    why = "RecursionError: a rank answers with 100,000 brackets"
    assert reported == [why, "stalled", why]


def test_the_watch_reports_that_it_could_not_sample(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    one = watch.JobWatch(watch.parse_arguments(["--json", "--", "true"]), {})
    one.tell_failure("RecursionError: \x1b[2J")
    event = remote.parse_watch_event(capsys.readouterr().err.rstrip("\n"))
    assert event is not None
    assert event["event"] == "unseen"
    assert event["text"].startswith("[WA-110] Fullmesh cannot tell whether the ranks make progress")
    assert "\x1b" not in event["text"]


def test_only_the_jobs_own_ranks_are_sampled(monkeypatch: pytest.MonkeyPatch) -> None:
    """py-spy is not used, because it would stop the ranks four times within the limit of a stall."""
    monkeypatch.setattr(
        watch_stall.hang_look.hang_answer, "dump_stacks", lambda _: pytest.fail("it was called")
    )
    rank = {**os.environ, "RANK": "0", "WORLD_SIZE": "1", "MASTER_ADDR": "a", "MASTER_PORT": "7"}
    sleep = [sys.executable, "-c", "import sys; print(flush=True); sys.stdin.read()"]
    with ExitStack() as ends:
        started = [
            ends.enter_context(
                subprocess.Popen(sleep, env=rank, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
            )
            for _ in range(2)
        ]
        for one in started:
            ends.callback(one.kill)
            assert one.stdout is not None
            one.stdout.readline()
        seen = watch_stall.read_process_ranks([started[1].pid], "n1")
    assert [one["pid"] for one in seen["ranks"]] == [started[1].pid]
    assert (seen["host"], seen["jobs"]) == ("n1", ["a:7"])


# --- from the controller --------------------------------------------------------------------------


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> stalled.StallReporter:
    samples = hang_records.load("late_sleep")
    looks = tuple[NodeHang, ...](
        {"host": "el1", "jobs": ["a"], "ranks": sample} for sample in samples
    )
    monkeypatch.setattr(stalled, "GATHER", 0.0)
    monkeypatch.setattr(stalled, "CERTAIN", 0.0)
    monkeypatch.setattr(ask, "query_hang_nodes", lambda *_: [ask.HangAnswer("el1", looks)])
    return stalled.StallReporter({"plan": plan(2), "hosts": {}})


def list_wait_lines(one: stalled.StallReporter) -> list[str]:
    one.wait(30)
    return one.lines()


def test_each_cause_is_reported_once_until_progress(asked: stalled.StallReporter) -> None:
    (cause,) = judge_job(hang_records.load("late_sleep"))
    asked.begin("a")
    (line,) = list_wait_lines(asked)
    assert line.startswith(f"[HG-107] {cause.cause}. Seen: ")
    assert "Fix: " in line
    assert asked.lines() == []
    verdict = asked.take_verdict()
    assert verdict is not None
    assert verdict.causes() == [cause]
    asked.begin("a")
    assert list_wait_lines(asked) == []
    assert asked.take_verdict() is None
    asked.forget()
    asked.begin("a")
    assert len(list_wait_lines(asked)) == 1


def test_a_failed_query_is_reported_and_the_next_one_follows(
    asked: stalled.StallReporter, monkeypatch: pytest.MonkeyPatch
) -> None:
    well = ask.query_hang_nodes

    def fails(*_: object) -> list[ask.HangAnswer]:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(ask, "query_hang_nodes", fails)
    asked.begin("a")
    (said,) = list_wait_lines(asked)
    assert said.startswith("[WA-111] The ranks hang, and Fullmesh could not find")
    assert "can't start new thread" in said
    monkeypatch.setattr(ask, "query_hang_nodes", well)
    asked.begin("a")
    assert list_wait_lines(asked)[0].startswith("[HG-107]")


def test_only_the_watched_jobs_account_is_judged(
    asked: stalled.StallReporter, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks: list[NodeHang] = []
    for sample in hang_records.load("late_sleep"):
        own: list[Rank] = [{**one, "account": "alice"} for one in sample]
        others: list[Rank] = [{**one, "account": "mallory", "rank": 7} for one in sample[1:]]
        looks.append({"host": "el1", "jobs": ["a"], "ranks": own + others})
    monkeypatch.setattr(ask, "query_hang_nodes", lambda *_: [ask.HangAnswer("el1", tuple(looks))])
    for account, count in (("alice", 1), ("mallory", 0), ("a container's", 1)):
        asked.forget()
        asked.begin("a", account)
        assert len([line for line in list_wait_lines(asked) if "HG-107" in line]) == count


def test_a_query_does_not_run_twice_at_once(
    asked: stalled.StallReporter, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[float] = []

    def slow(*_: object) -> list[ask.HangAnswer]:
        calls.append(time.monotonic())
        time.sleep(0.2)
        return []

    monkeypatch.setattr(ask, "query_hang_nodes", slow)
    asked.begin("a")
    asked.begin("a")
    assert list_wait_lines(asked) == []
    assert len(calls) == 1
