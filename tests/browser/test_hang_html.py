"""The pages of a hung job and of logs, in Chromium: light and dark, wide and narrow."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import hang_records
import pytest

from fullmesh import cli
from fullmesh.causes.hang.job import JobSample
from fullmesh.hang.judge import judge_job
from fullmesh.report import hang

from .chromium import Browser

WIDTHS = (1280, 400)
WORLDS = (8, 512)


def many(world: int) -> list[Any]:
    """A recorded job with as many ranks: all but one wait for the one that sleeps."""
    waits, sleeps = copy.deepcopy(hang_records.load_raw("late_sleep"))[-1]
    groups = [{"name": "0", "desc": "default_pg", "ranks": list(range(world))}]
    late = world * 5 // 8
    made = [
        {
            **copy.deepcopy(sleeps if number == late else waits),
            "rank": number,
            "world": world,
            "groups": groups,
            "host": f"n{number // 8 + 1}",
        }
        for number in range(world)
    ]
    return hang_records.read([made])[0]


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[int, Path]:
    """The pages as files."""
    folder = tmp_path_factory.mktemp("hang")
    made = {}
    for world in WORLDS:
        ranks = many(world)
        now = JobSample({one["rank"]: one for one in ranks})
        made[world] = folder / f"{world}.html"
        made[world].write_text(
            hang.render_hang_report("10.78.0.11:29500", now, judge_job([ranks])), "utf-8"
        )
    return made


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("world", WORLDS)
def test_the_page_fits_runs_no_script_and_loads_nothing(
    browser: Browser, pages: dict[int, Path], pictures: Path, world: int, width: int
) -> None:
    for scheme in ("light", "dark"):
        browser.look(width, 900, scheme)
        browser.open(pages[world])
        assert browser.complaints() == []
        assert browser.requests() == [pages[world].as_uri()]
        assert browser.find_barriers() == ""
        assert browser.run("document.documentElement.scrollWidth") <= width
        browser.picture(pictures / f"hang-{world}-{width}-{scheme}.png")


@pytest.mark.parametrize("world", WORLDS)
def test_a_missing_rank_has_a_visible_mark(
    browser: Browser, pages: dict[int, Path], world: int
) -> None:
    """Its mark is as wide as a pixel at least, has the colour of its word, and says which rank it is."""
    browser.look(1280, 900, "light")
    browser.open(pages[world])
    mark = "[...document.querySelectorAll('.lane svg')].pop().querySelector('.c-not')"
    assert browser.run(f"{mark}.getBoundingClientRect().width") >= 1
    assert browser.run(f"getComputedStyle({mark}).fill") == "rgb(214, 48, 63)"
    assert browser.run(f"{mark}.querySelector('title').textContent") == (
        f"rank {world * 5 // 8}: not entered"
    )
    shown = browser.run("document.querySelector('main').innerText")
    assert f"rank {world * 5 // 8}: not entered" in shown
    assert browser.run("document.title").startswith("hung")


@pytest.mark.parametrize("width", WIDTHS)
def test_the_page_of_logs_fits_without_errors(
    browser: Browser, tmp_path: Path, pictures: Path, width: int
) -> None:
    """Lines of logs are longer than any page, and have no place to break."""
    log, page = tmp_path / "rank0.log", tmp_path / "logs.html"
    path = "/a" * 400
    log.write_text(f"one {path}\nTraceback (most recent call last):\nRuntimeError: {path}\n")
    assert cli.main(["explain-log", "--html", str(page), str(log)]) == cli.PROBLEM
    for scheme in ("light", "dark"):
        browser.look(width, 900, scheme)
        browser.open(page)
        assert browser.complaints() == []
        assert browser.requests() == [page.as_uri()]
        assert browser.find_barriers() == ""
        assert browser.run("document.documentElement.scrollWidth") <= width
        assert "RuntimeError" in browser.run("document.querySelector('main').innerText")
        browser.picture(pictures / f"logs-{width}-{scheme}.png")
