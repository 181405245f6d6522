"""explain-log on what public threads showed: the halves are what they say, and no score falls below the page's."""

from __future__ import annotations

import re

import pytest
import threads
import yaml
from threads import RIGHT, SILENT, SYMPTOM, WRONG, Thread

from fullmesh.explain import judge
from fullmesh.settings import ROOT

ALL = threads.read_threads()
PAGE = ROOT / "docs/development/tested.md"
# the page's rows: | which half | threads | right | symptom | another cause | silent | causes named wrongly in all |
ROW = re.compile(
    r"^\| (?P<half>[^|]+?) \| (\d+) \| (\d+) \| (\d+) \| (\d+) \| (\d+) \| (\d+) \|$", re.MULTILINE
)
HALVES = {"rules may be written from it": False, "set aside, scored once": True}


def told() -> dict[bool, list[int]]:
    """The figures of the page, by half."""
    rows = {found["half"]: found for found in ROW.finditer(PAGE.read_text("utf-8"))}
    return {
        held: [int(number) for number in rows[half].groups()[1:]] for half, held in HALVES.items()
    }


def test_a_hundred_threads_are_listed_once_each() -> None:
    assert len(ALL) >= 100
    assert len({one.address for one in ALL}) == len(ALL)
    assert all(re.fullmatch(r"[\w.-]+/[\w.-]+#\d+", one.address) for one in ALL)
    assert all(one.lines and all(line.strip() for line in one.lines) for one in ALL)
    assert {one.cause for one in ALL} == threads.CAUSES.keys()
    assert {code for codes in threads.CAUSES.values() for code in codes} <= judge.CAUSES.keys()


def test_half_of_the_threads_are_set_aside_and_not_cited() -> None:
    held = [one.address for one in ALL if one.held_out]
    # the half is drawn by the address, so that the halves differ by chance
    assert abs(2 * len(held) - len(ALL)) <= len(ALL) // 25
    sources = " ".join(cause.page.source for cause in judge.CAUSES.values())
    # "NVIDIA/nccl#1, #2" names two
    cited = set(re.findall(r"[\w.-]+/[\w.-]+#\d+", sources)) | {
        f"{found[1]}{number}"
        for found in re.finditer(r"([\w.-]+/[\w.-]+)#\d+((?:, #\d+)+)", sources)
        for number in re.findall(r"#\d+", found[2])
    }
    assert not cited.intersection(held)


def test_the_half_of_a_thread_is_random() -> None:
    one = next(one for one in ALL if one.held_out)
    assert Thread(one.address, "another", ("other words",)).held_out
    assert not Thread(one.address, one.cause, one.lines, known=True).held_out


@pytest.mark.parametrize("held_out", [False, True])
def test_neither_half_scores_below_the_documented_figures(held_out: bool) -> None:
    answers = threads.score_threads(ALL, held_out=held_out)
    total, right, symptom, wrong, silent, named = told()[held_out]
    assert (total, right + symptom + wrong + silent) == (len(answers), total)
    counts = threads.count_verdicts(answers)
    assert counts[RIGHT] >= right
    assert counts[WRONG] <= wrong
    assert counts[SILENT] <= silent
    assert counts[SYMPTOM] + counts[RIGHT] >= symptom + right
    assert sum(len(one.wrong) for one in answers) <= named


@pytest.mark.parametrize(
    "row", yaml.safe_load(threads.HEALTHY.read_text("utf-8")), ids=lambda row: row["name"]
)
def test_logs_of_jobs_that_worked_give_no_finding(row: dict[str, list[str]]) -> None:
    assert [found.code for found in threads.find_heads(row["lines"])] == []


def test_an_answer_is_right_only_if_it_comes_first() -> None:
    oom = "kernel: Out of memory: Killed process 14750 (python3)"
    assert threads.answer_thread(Thread("a/b#1", "memory", (oom,))).verdict == RIGHT
    other = threads.answer_thread(Thread("a/b#1", "nofile", (oom, "OSError: Too many open files")))
    assert (other.verdict, other.wrong) == (WRONG, ("LG-501",))
    assert threads.answer_thread(Thread("a/b#1", "shm", ("all is well",))).verdict == SILENT
    late = "RuntimeError: NCCL error: unhandled system error (run with NCCL_DEBUG=INFO for details)"
    assert threads.answer_thread(Thread("a/b#1", "shm", (late,))).verdict == SYMPTOM
