"""A watched job that continues at the pace of one rank: the nodes' reports and the controller's result."""

from __future__ import annotations

import copy
from typing import Any

import fullmesh_hang as hang
import fullmesh_watch as watch
import fullmesh_watch_stall as watch_stall
import pytest
from ladder_samples import plan
from record_files import RECORDED, load_record

from fullmesh.hang import ask, slow
from fullmesh.observed.hang import NodeHang
from fullmesh.observed.watch import WatchEvent
from fullmesh.watch import remote
from fullmesh.watch.remote import NodeMessage

NODES = ("n1", "n2")
AHEAD = {"n1": 0, "n2": 7_300_000_000}  # nanoseconds
START = 1_000_000_000_000


def record(name: str) -> list[dict[str, NodeHang]]:
    """Node -> what it answered, for each sample of a recorded job. The clock of n2 is ahead."""
    found = []
    for sample in copy.deepcopy(load_record(RECORDED / f"hang_slow/{name}.json")["samples"]):
        nodes: dict[str, Any] = {one: {"host": one, "jobs": [], "ranks": []} for one in NODES}
        for rank in sample:
            ahead = AHEAD[rank["host"]]
            rank["taken_ns"] += ahead
            for entry in rank["entries"]:
                entry["created_ns"] += ahead
            for part in rank["arrivals"]:
                part["created_us"] += ahead // 1000
            nodes[rank["host"]]["ranks"].append(rank)
        found.append(nodes)
    return found


def send(reporter: slow.SlowReporter, kind: Any, name: str, **more: Any) -> None:
    """A node's event, which arrives a little later than it was sent."""
    event: WatchEvent = {
        "event": kind,
        "node": name,
        "after": 1.0,
        "sent_ns": START + AHEAD[name],
        **more,
    }
    reporter.take(NodeMessage(name, "event", event=event, at_ns=START + 300_000))


def judge_answers(reporter: slow.SlowReporter, nodes: dict[str, NodeHang]) -> list[str]:
    """All nodes answer, and the controller judges."""
    for name, one in nodes.items():
        send(reporter, "ranks", name, text=hang.pack_answer(one))
        send(reporter, "clock", name)
    assert reporter.judging is not None
    reporter.judging.join(30)
    return reporter.lines()


@pytest.fixture
def queries(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The jobs that the nodes were queried for. They answer as they were recorded."""
    asked: list[str] = []

    def query(_hosts: object, job: str, again: list[float]) -> list[ask.HangAnswer]:
        asked.append(job)
        found = record("slow_sleep")[: 1 + len(again)]
        clocks = {
            name: ask.compare_clocks([(ahead, 0), (ahead, 9)]) for name, ahead in AHEAD.items()
        }
        return [
            ask.HangAnswer(name, tuple(ask.set_clock(one[name], clocks[name]) for one in found))
            for name in NODES
        ]

    monkeypatch.setattr(ask, "query_hang_nodes", query)
    return asked


@pytest.fixture
def reporter() -> slow.SlowReporter:
    return slow.SlowReporter({"plan": plan(2), "hosts": {name: {} for name in NODES}})


def test_a_slow_rank_is_reported_once(reporter: slow.SlowReporter, queries: list[str]) -> None:
    samples = record("slow_sleep")
    assert judge_answers(reporter, samples[0]) == []
    assert judge_answers(reporter, samples[1]) == []
    assert queries == []
    (line,) = judge_answers(reporter, samples[2])
    assert line.startswith("[HG-163] the job continues, but rank 0 waits ")
    assert "for rank 1 (n2). Reason: it sleeps at /home/user/train.py:20. Seen: " in line
    assert "Fix: " in line
    assert queries == ["127.0.0.1:29500"]
    assert judge_answers(reporter, samples[3]) == []
    assert len(queries) == 1


def test_a_healthy_job_is_never_queried(reporter: slow.SlowReporter, queries: list[str]) -> None:
    for sample in record("healthy_even"):
        assert judge_answers(reporter, sample) == []
    assert queries == []


def test_an_error_of_the_judgement_is_reported_once(
    reporter: slow.SlowReporter, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_answers: object) -> dict[slow.SlowKey, slow.HangFinding]:
        raise OSError("no process can be started")

    monkeypatch.setattr(reporter, "find", fail)
    sample = record("healthy_even")[0]
    (line,) = judge_answers(reporter, sample)
    assert line.startswith("Fullmesh could not judge whether a rank is slow: OSError: no process")
    assert "Check: ./fullmesh hang" in line
    assert judge_answers(reporter, sample) == judge_answers(reporter, sample) == []


def test_one_slow_judgement_is_not_reported(
    reporter: slow.SlowReporter, queries: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    samples = record("slow_sleep")
    find, calls = reporter.find, iter([True, True, False, True, False])
    monkeypatch.setattr(reporter, "find", lambda answers: find(answers) if next(calls) else {})
    for number in (0, 1, 2, 3, 3):
        assert judge_answers(reporter, samples[number]) == []
    assert queries == []


def test_a_rank_that_becomes_slow_again_is_news(
    reporter: slow.SlowReporter, queries: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(slow, "KEPT", 8)
    samples = record("slow_sleep")
    for sample in samples[:3]:
        last = judge_answers(reporter, sample)
    assert last
    find = reporter.find
    monkeypatch.setattr(reporter, "find", lambda _: {})
    assert judge_answers(reporter, samples[3]) == judge_answers(reporter, samples[3]) == []
    monkeypatch.setattr(reporter, "find", find)
    assert judge_answers(reporter, samples[3]) == []
    assert judge_answers(reporter, samples[3]) == last


def test_nodes_that_do_not_answer_are_waited_for(reporter: slow.SlowReporter) -> None:
    for sample in record("slow_sleep"):
        send(reporter, "ranks", "n1", text=hang.pack_answer(sample["n1"]))
    assert reporter.judging is None
    assert reporter.lines() == []


@pytest.mark.parametrize("text", ["", "no base64", hang.MARK + "eJwDAAAAAAE=", "eJyrVgIAAM4AbA=="])
def test_a_damaged_answer_is_left_out(
    text: str, reporter: slow.SlowReporter, queries: list[str]
) -> None:
    samples = record("slow_sleep")
    judge_answers(reporter, samples[0])
    send(reporter, "ranks", "n1", text=text)
    send(reporter, "ranks", "n2", text=hang.pack_answer(samples[1]["n2"]))
    if reporter.judging is not None:
        reporter.judging.join(30)
        assert reporter.lines() == []
    assert judge_answers(reporter, samples[1]) == []
    assert judge_answers(reporter, samples[2]) != []


def test_the_node_sends_its_ranks_to_the_controller_alone(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = record("slow_sleep")[0]["n1"]
    one = watch.JobWatch(watch.parse_arguments(["--json", "--name", "n1", "--", "true"]), {})
    one.share_ranks(seen)
    lines = capsys.readouterr().err.rstrip("\n").split("\n")
    first, *rest = [remote.parse_watch_event(line) for line in lines]
    assert first is not None
    assert first["event"] == "ranks"
    assert ask.parse_node_hang(first["text"], "n1")["ranks"][0]["rank"] == 0
    assert [event and event["event"] for event in rest] == ["clock"] * hang.STAMPS
    times = [event["sent_ns"] for event in (first, *rest) if event]
    assert times == sorted(times)
    monkeypatch.setattr(watch, "MOST_PACKED", 10)
    one.share_ranks(seen)
    watch.JobWatch(watch.parse_arguments(["--", "true"]), {}).share_ranks(seen)
    assert capsys.readouterr().err == ""


def test_the_follower_shares_from_time_to_time(monkeypatch: pytest.MonkeyPatch) -> None:
    shared: list[NodeHang] = []
    answers = [one["n1"] for one in record("healthy_even")]

    def observe() -> NodeHang:
        follower.ended = len(answers) == 1
        return answers.pop(0)

    follower = watch_stall.RankFollower(60, observe)
    follower.progress.pause = lambda: 0.0  # type: ignore[method-assign]
    now = iter([0.0, 29.0, 31.0, 31.0, 60.0, 62.0, 62.0])
    monkeypatch.setattr(watch_stall.time, "monotonic", lambda: next(now))
    follower.run(lambda *_: None, pytest.fail, shared.append)
    assert shared == [record("healthy_even")[1]["n1"]]
