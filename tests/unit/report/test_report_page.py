"""The report's page: verdict, findings, tables and picture."""

from __future__ import annotations

import csv
import io
import re
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from ladder_samples import healthy
from report_pages import Page
from report_samples import build_result, large, make_dropped_link

from fullmesh.causes.engine import load_causes
from fullmesh.report import (
    causes,
    health,
    heat,
    matrix,
    model,
    page,
    table,
)
from fullmesh.settings import ROOT


@pytest.mark.parametrize(
    "result",
    [
        build_result(),
        make_dropped_link(),
        build_result(healthy(1)),
        build_result(healthy(check_mode=True)),
        large(8),
        large(30),
    ],
    ids=["healthy", "dropped", "one", "check", "eight", "thirty"],
)
def test_the_page_is_complete_and_loads_nothing(result: dict[str, Any]) -> None:
    text = page.render_report_page(result)
    read = Page(text)
    assert read.stack == []
    addresses = [a.get(k) for _, a in read.elements for k in ("src", "href") if a.get(k)]
    assert all(str(address).startswith("#") for address in addresses)
    assert "http://" not in text.replace("http://www.w3.org", "")
    assert "https://" not in text
    assert "@import" not in text
    assert "url(" not in re.sub(r"url\(#p-\w+\)", "", text)
    assert {tag for tag, _ in read.elements}.isdisjoint({"link", "img", "iframe", "object", "base"})


def test_the_page_shows_the_verdict_the_findings_and_the_commands() -> None:
    read = Page(page.render_report_page(large(8)))
    shown = read.text()
    for words in (
        "FAILED at L2",
        "VC-201",
        "1 more follows from this",
        "VC-301",
        "3 differs",
        "2.12.1+cpu",
    ):
        assert words.replace("3 differs", "differs") in shown
    assert "THE FIREWALL IS OFF" in Page(page.render_report_page(make_dropped_link())).text()
    commands = [a for tag, a in read.elements if tag == "button"]
    # for each of both causes: the finding's check and fix, and the proof on the cause's page
    assert len(commands) == 6
    assert "hidden" in commands[0]
    assert "not run" in shown
    assert "L3 failed" not in shown


def test_a_finding_links_to_its_cause() -> None:
    """The page has the explanations, because its readers may have no checkout. Consequences have theirs, too."""
    result = large(8)
    read = Page(page.render_report_page(result))
    names = {a.get("id") for _, a in read.elements}
    led = [a["href"] for tag, a in read.elements if tag == "a" and "#about-" in str(a.get("href"))]
    assert len(led) == len(list(causes.iterate_codes(result["findings"]))) > 1
    assert {str(one).removeprefix("#") for one in led} <= names
    assert load_causes("VC")["VC-201"].page.why in read.text()
    healthy = page.render_report_page(build_result())
    assert "About these causes" not in healthy
    assert 'href="#about"' not in healthy


def test_tables_have_every_link_and_finding() -> None:
    made = table.render_csv_tables(large(8))
    links = list(csv.DictReader(io.StringIO(made["links.csv"])))
    assert len(links) == 8 * 7
    assert {row["state"] for row in links} == {"open", "dropped"}
    assert links[0]["round_trip_ms"].startswith("0.0")
    found = list(csv.DictReader(io.StringIO(made["findings.csv"])))
    assert found[0]["code"] == "VC-201"
    assert {row["follows_from"] for row in found} == {"", "VC-201"}
    rungs = list(csv.DictReader(io.StringIO(made["ladder.csv"])))
    assert [row["rung"] for row in rungs] == [one["id"] for one in large(8)["rungs"]]


def test_no_cell_is_a_formula_or_breaks_its_row() -> None:
    """Text of a node that a spreadsheet would run as a formula."""
    result = make_dropped_link()
    result["findings"][0]["seen"] = "=HYPERLINK(1)"
    result["findings"][0]["cause"] = 'two\nlines, a "quote"'
    (row, *_) = csv.DictReader(io.StringIO(table.render_csv_tables(result)["findings.csv"]))
    assert row["seen"] == "'=HYPERLINK(1)"
    assert "\n" not in row["cause"]
    assert '"quote"' in row["cause"]


def test_links_are_a_table_or_for_many_nodes_a_picture() -> None:
    few = page.render_report_page(large(matrix.TABLE_NODES))
    assert few.count('class="k-') == 8 * 7
    assert "D</span> dropped" in few
    assert 'id="data"' not in few
    many = page.render_report_page(large(matrix.TABLE_NODES + 1))
    assert "k-open" not in many.split("</style>")[1]
    assert many.count("<figure") == 3
    assert "f-dropped" in many
    assert Page(many).text().count("dropped") > 8


def test_two_hundred_nodes_give_a_small_page_quickly() -> None:
    started = time.process_time()
    text = page.render_report_page(large(200))
    assert len(text) < 4_000_000
    # 0.5 s here; a quadratic template or a path per cell took minutes
    assert time.process_time() - started < 30
    assert text.count("<path") < 60


def test_every_cell_of_the_picture_is_drawn_once() -> None:
    result = large(23)
    drawn = [[0] * 23 for _ in range(23)]
    [state, *_] = matrix.draw_heatmaps(result)
    for layer in state.layers:
        assert layer.cells == sum(int(m[2]) for m in re.finditer(r"M(\d+) \d+h(\d+)", layer.path))
        for column, row, length in re.findall(r"M(\d+) (\d+)h(\d+)v1h-\3z", layer.path):
            for at in range(int(column), int(column) + int(length)):
                drawn[int(row)][at] += 1
    assert drawn == [[int(row != column) for column in range(23)] for row in range(23)]


@given(st.lists(st.floats(0.001, 1e4), min_size=1, max_size=50), st.booleans())
def test_levels_increase_and_cover_every_value(values: list[float], high_is_bad: bool) -> None:
    upper = heat.compute_level_bounds(values, high_is_bad)
    assert upper == sorted(upper)
    assert len(upper) == heat.LEVELS
    for value in values:
        level = heat.find_level(value, upper)
        assert value <= upper[level] * 1.000001
        assert level == 0 or value > upper[level - 1]


def test_noise_is_no_fault_in_the_picture() -> None:
    rates = [9400 + 100 * index for index in range(5)]
    upper = heat.compute_level_bounds([float(rate) for rate in rates], high_is_bad=False)
    assert {heat.find_level(rate, upper) for rate in rates} == {heat.LEVELS - 1}


def test_no_state_depends_on_colour_alone() -> None:
    letters = [state.letter for state in model.STATES.values()]
    assert len(set(letters)) == len(letters)
    template = (ROOT / "src/fullmesh/report/page.html.j2").read_text()
    style = (ROOT / "src/fullmesh/report/page.css").read_text()
    for word in (*model.WORST, model.UNKNOWN):
        assert f'id="p-{word}"' in template
        assert f"url(#p-{word})" in style
    marks = re.findall(
        r'id="p-[^>]*>(?:<rect[^>]*class="(?:base|blank)"/>)(.*?)</pattern>', template
    )
    assert len(set(marks)) == len(model.WORST) + 1


@pytest.mark.parametrize("scheme", [0, 1], ids=["light", "dark"])
def test_text_has_enough_contrast(scheme: int) -> None:
    style = (ROOT / "src/fullmesh/report/page.css").read_text()
    blocks = re.findall(r":root\{(.*?)\}", style, re.DOTALL)
    colours = dict(re.findall(r"--([\w-]+):(#[0-9a-f]{3,6})", blocks[scheme]))
    pairs = [
        ("ink", "bg"),
        ("ink", "card"),
        ("soft", "card"),
        ("soft", "bg"),
        ("ink", "code"),
        ("soft", "code"),
    ]
    pairs += [(k, f"{k}-bg") for k in ("ok", "bad", "mild")] + [
        ("accent", "card"),
        ("card", "accent"),
        ("bad", "card"),
    ]
    pairs += [("ink", f"{k}-bg") for k in ("ok", "bad")]
    for front, back in pairs:
        assert compute_contrast(colours[front], colours[back]) >= 4.5, (front, back)


def compute_contrast(one: str, other: str) -> float:
    """WCAG 2's contrast ratio."""

    def light(colour: str) -> float:
        digits = colour[1:] if len(colour) == 7 else "".join(2 * c for c in colour[1:])
        parts = [int(digits[i : i + 2], 16) / 255 for i in (0, 2, 4)]
        lin = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in parts]
        return 0.2126 * lin[0] + 0.7152 * lin[1] + 0.0722 * lin[2]

    low, high = sorted((light(one), light(other)))
    return (high + 0.05) / (low + 0.05)


def test_the_page_draws_the_verdicts_of_the_nodes_checks() -> None:
    result = build_result()
    assert "Health" not in Page(page.render_report_page(result)).text()
    end = int(health.datetime.fromisoformat(result["finished"]).timestamp())
    fit = {"state": "fit", "codes": []}
    broken = {"state": "not fit", "codes": ["HC-161"], "first": end - 7200, "last": end - 3700}
    spans = [{**fit, "first": end - 14400, "last": end - 7300}, broken]
    result["nodes"]["el1"]["facts"]["health"] = [*spans, {**fit, "first": end - 3600, "last": end}]
    result["nodes"]["ubuntu1"]["facts"]["health"] = [
        {**broken, "last": end},
        {"state": "odd"},
        {**fit, "state": ["fit"]},
        {**fit, "codes": [5]},
        {**fit, "first": "now"},
    ]
    drawing = health.draw_health(result)
    assert drawing is not None
    faulty, repaired = drawing.rows
    assert (faulty.node, faulty.state, faulty.bars) == (
        "ubuntu1",
        "not fit: HC-161",
        [("bad", 500.0, 500.0)],
    )
    assert repaired.bars == [("ok", 0.0, 500.0), ("bad", 500.0, 250.0), ("ok", 750.0, 250.0)]
    shown = Page(page.render_report_page(result)).text()
    assert "not fit: HC-161 from 2026-01-02 01:04 to 2026-01-02 02:02" in shown
    assert "verdicts of the nodes' own checks, 2026-01-01 23:04 to 2026-01-02 03:04 UTC" in shown
