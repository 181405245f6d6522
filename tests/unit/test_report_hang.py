"""The page of a hung job: its ranks, the collectives of its groups, and the findings."""

from __future__ import annotations

import copy
import re
from typing import Any

import hang_records
import pytest

from fullmesh.causes.hang.job import JobSample
from fullmesh.hang.judge import judge_job
from fullmesh.report import hang

SAMPLES = ("late_sleep", "kinds_four", "groups_crossed", "late_stopped", "killed", "healthy")


def sample(ranks: list[Any]) -> JobSample:
    return JobSample({one["rank"]: one for one in ranks})


def page(name: str) -> str:
    samples = hang_records.load(name)
    return hang.render_hang_report("29500", sample(samples[-1]), judge_job(samples))


def multiply_ranks(world: int) -> list[Any]:
    """A recorded job with as many ranks: every second is like the one that waits, the last like the one that sleeps."""
    waits, sleeps = copy.deepcopy(hang_records.load_raw("late_sleep"))[-1]
    made = []
    for number in range(world):
        like = copy.deepcopy(sleeps if number == world - 1 else waits)
        groups = [{"name": "0", "desc": "default_pg", "ranks": list(range(world))}]
        made.append(
            {**like, "rank": number, "world": world, "groups": groups, "host": f"n{number // 8}"}
        )
    return hang_records.read([made])[0]


def last_row(now: JobSample) -> hang.CollectiveRow:
    (lane,) = hang.build_group_lanes(now)
    return lane.rows[-1]


def test_each_collective_lists_present_and_missing_ranks() -> None:
    row = last_row(sample(hang_records.load("late_sleep")[-1]))
    assert (row.number, row.kind, row.sizes) == (4, "all_reduce", "[[8]]")
    assert [(one.word, one.text) for one in row.spans] == [
        ("in", "rank 0: in it"),
        ("not", "rank 1: not entered"),
    ]
    assert re.fullmatch(r"\d+\.\d s ago", row.when)


def test_a_rank_that_called_something_else_is_shown_as_that() -> None:
    row = last_row(sample(hang_records.load("kinds_four")[-1]))
    assert (row.kind, [one.word for one in row.spans]) == ("all_reduce", ["in", "other"])


@pytest.mark.parametrize(("name", "word"), [("late_stopped", "unknown"), ("killed", "gone")])
def test_a_rank_without_answer_is_not_late(name: str, word: str) -> None:
    assert word in {one.word for one in last_row(sample(hang_records.load(name)[-1])).spans}


def test_every_group_has_its_lane() -> None:
    found = hang.build_group_lanes(sample(hang_records.load("groups_crossed")[-1]))
    assert [one.name for one in found] == ["default_pg", "pipeline", "tensor"]


@pytest.mark.parametrize("name", SAMPLES)
def test_the_page_is_complete_and_loads_nothing(name: str) -> None:
    text = page(name)
    assert text.rstrip().endswith("</html>")
    assert "default-src &#39;none&#39;; style-src &#39;sha256-" in text
    assert not re.search(r'(?:src|href)="(?:https?:|//)', text)
    for one in judge_job(hang_records.load(name)):
        assert one.code in text


def test_512_ranks_are_a_page_of_few_marks() -> None:
    ranks = multiply_ranks(512)
    text = hang.render_hang_report("29500", sample(ranks), judge_job([ranks]))
    (lane,) = hang.build_group_lanes(sample(ranks))
    assert [(one.at, one.width, one.word) for one in lane.rows[-1].spans] == [
        (0, 511, "in"),
        (511, 1, "not"),
    ]
    assert "ranks 0-510: in it" in text
    assert len(text) < 60_000


def test_job_text_never_becomes_markup() -> None:
    samples = copy.deepcopy(hang_records.load_raw("late_sleep"))
    evil = "</style><script>alert(1)</script>"
    for one in samples[-1]:
        for entry in one["entries"]:
            entry["kind"] = entry["desc"] = evil
        for frame in one["threads"][0]["frames"]:
            frame["file"] = f"/{evil}.py"
    read = hang_records.read(samples)
    text = hang.render_hang_report(evil, sample(read[-1]), judge_job(read))
    assert "<script" not in text
    assert text.count("</style>") == 1
