"""Reports: the page, junit.xml, the terminal, and what changed between two runs."""

from __future__ import annotations

import copy
import csv
import io
import json
import re
import time
import xml.etree.ElementTree as ET
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
import run_result
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from ladder_samples import healthy
from loaded import load
from report_samples import HOSTILE, built, dropped, hostile, large, link
from rich.console import Console

from fullmesh import cli
from fullmesh.causes.engine import load_causes
from fullmesh.printed import CONTROL
from fullmesh.report import (
    blocks,
    causes,
    compare,
    heat,
    junit,
    matrix,
    model,
    page,
    table,
    terminal,
    write,
)
from fullmesh.settings import ROOT
from fullmesh.verbs import report as report_cli

VOID = {"meta", "br", "input", "link", "img", "hr"}


class Page(HTMLParser):
    """What a browser would make of a page: elements, attributes, text; and whether every element is closed."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.stack: list[str] = []
        self.texts: list[str] = []
        self.scripts: list[str] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag not in VOID:
            self.stack.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.stack, tag
        assert self.stack.pop() == tag

    def handle_data(self, data: str) -> None:
        (self.scripts if self.stack and self.stack[-1] == "script" else self.texts).append(data)

    def text(self) -> str:
        """Everything that is read."""
        return " ".join(" ".join(self.texts).split())

    def shape(self) -> list[tuple[str, tuple[str, ...]]]:
        """Elements and the names of their attributes."""
        return [(tag, tuple(sorted(attrs))) for tag, attrs in self.elements]


def parsed(text: str) -> ET.Element:
    """The XML that we wrote ourselves."""
    return ET.fromstring(text)  # noqa: S314 (no XML of others)


def summary(result: dict[str, Any]) -> str:
    stream = io.StringIO()
    terminal.print_result(result, terminal.make_console(stream))
    return stream.getvalue()


@pytest.mark.parametrize(
    "result",
    [built(), dropped(), built(healthy(1)), built(healthy(check_mode=True)), large(8), large(30)],
    ids=["healthy", "dropped", "one", "check", "eight", "thirty"],
)
def test_the_page_is_whole_and_asks_nobody(result: dict[str, Any]) -> None:
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
    assert "THE FIREWALL IS OFF" in Page(page.render_report_page(dropped())).text()
    commands = [a for tag, a in read.elements if tag == "button"]
    # a command that fixes, and one that proves, for each of both causes
    assert len(commands) == 4
    assert "hidden" in commands[0]
    assert "not run" in shown
    assert "L3 failed" not in shown


def test_a_finding_leads_to_what_is_known_of_its_cause() -> None:
    """In the same file: who reads it may have no checkout. What follows from a finding has its page there as well."""
    result = large(8)
    read = Page(page.render_report_page(result))
    names = {a.get("id") for _, a in read.elements}
    led = [a["href"] for tag, a in read.elements if tag == "a" and "#about-" in str(a.get("href"))]
    assert len(led) == len(list(causes.iterate_codes(result["findings"]))) > 1
    assert {str(one).removeprefix("#") for one in led} <= names
    assert load_causes("VC")["VC-201"].page.why in read.text()
    healthy = page.render_report_page(built())
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


def test_no_cell_is_a_formula_and_none_breaks_its_row() -> None:
    """A node's words: a spreadsheet would compute what begins so."""
    result = dropped()
    result["findings"][0]["seen"] = "=HYPERLINK(1)"
    result["findings"][0]["cause"] = 'two\nlines, a "quote"'
    (row, *_) = csv.DictReader(io.StringIO(table.render_csv_tables(result)["findings.csv"]))
    assert row["seen"] == "'=HYPERLINK(1)"
    assert "\n" not in row["cause"]
    assert '"quote"' in row["cause"]


def test_links_are_a_table_for_few_nodes_and_a_picture_for_many() -> None:
    few = page.render_report_page(large(matrix.TABLE_NODES))
    assert few.count('class="k-') == 8 * 7
    assert "D</span> dropped" in few
    assert 'id="data"' not in few
    many = page.render_report_page(large(matrix.TABLE_NODES + 1))
    assert "k-open" not in many.split("</style>")[1]
    assert many.count("<figure") == 3
    assert "f-dropped" in many
    assert Page(many).text().count("dropped") > 8


def test_two_hundred_nodes_are_a_small_page_made_in_no_time() -> None:
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
def test_levels_grow_and_hold_every_value(values: list[float], high_is_bad: bool) -> None:
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


def test_no_state_is_told_by_its_colour_alone() -> None:
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
        assert contrast(colours[front], colours[back]) >= 4.5, (front, back)


def contrast(one: str, other: str) -> float:
    """WCAG 2's contrast ratio."""

    def light(colour: str) -> float:
        digits = colour[1:] if len(colour) == 7 else "".join(2 * c for c in colour[1:])
        parts = [int(digits[i : i + 2], 16) / 255 for i in (0, 2, 4)]
        lin = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in parts]
        return 0.2126 * lin[0] + 0.7152 * lin[1] + 0.0722 * lin[2]

    low, high = sorted((light(one), light(other)))
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("text", HOSTILE, ids=range(len(HOSTILE)))
@pytest.mark.parametrize("count", [3, 9])
def test_hostile_text_stays_text(text: str, count: int) -> None:
    made, tame = hostile(text, count), hostile("tame", count)
    shown = page.render_report_page(made)
    assert Page(shown).shape() == Page(page.render_report_page(tame)).shape()
    assert not CONTROL.search(re.sub(r"\n", "", shown))
    assert "owned'</script>" not in shown
    root = parsed(junit.render_junit(made))
    expected = parsed(junit.render_junit(tame))
    assert [e.tag for e in root.iter()] == [e.tag for e in expected.iter()]
    printed = summary(made)
    assert not CONTROL.search(printed.replace("\n", ""))
    assert "\nOK: 2 nodes" not in printed
    assert not CONTROL.search("".join(terminal.format_summary(made)))


@settings(max_examples=60, suppress_health_check=[HealthCheck.too_slow])
@given(st.text(max_size=60))
def test_any_text_stays_text(text: str) -> None:
    made, tame = hostile("x" + text), hostile("tame")
    read = Page(page.render_report_page(made))
    shape = Page(page.render_report_page(tame)).shape()

    assert read.shape() == shape
    assert [e.tag for e in parsed(junit.render_junit(made)).iter()] == [
        e.tag for e in parsed(junit.render_junit(tame)).iter()
    ]
    assert not CONTROL.search(summary(made).replace("\n", ""))


def test_the_figures_for_the_pointer_cannot_end_their_element() -> None:
    text = page.render_report_page(hostile("</script><!--<script>", 9))
    held = re.search(r'<script type="application/json" id="data">(.*?)</script>', text)
    assert held is not None
    assert "<" not in held[1]
    data = json.loads(held[1])
    assert data["nodes"][0].endswith("</script><!--<script>")
    assert len(data["rows"]) == 9


def test_the_policy_allows_our_own_script_and_style_and_nothing_else() -> None:
    text = page.render_report_page(dropped())
    policy = next(a["content"] for t, a in Page(text).elements if a.get("http-equiv"))
    assert policy is not None
    assert "default-src 'none'" in policy
    assert policy.count("sha256-") == 2
    assert "unsafe" not in policy
    assert " style=" not in text
    assert not re.search(r"\son\w+=", text)


def junit_of(result: dict[str, Any]) -> dict[str, ET.Element]:
    root = parsed(junit.render_junit(result))
    return {suite.attrib["name"]: suite for suite in root}


def test_junit_has_a_case_for_every_rung_link_and_finding() -> None:
    result = dropped()
    suites = junit_of(result)
    sizes = {name: len(suite.findall("testcase")) for name, suite in suites.items()}
    assert sizes == {
        "fullmesh.ladder": 9,
        "fullmesh.links": 6,
        "fullmesh.findings": len(result["findings"]),
    }
    [bad] = [c for c in suites["fullmesh.links"] if c.find("failure") is not None]
    assert bad.attrib["name"] == "el1 -> ubuntu1"
    failed = suites["fullmesh.ladder"].findall("testcase/failure")
    assert "VC-201" in str(failed[0].text)
    skipped = suites["fullmesh.ladder"].findall("testcase/skipped")
    assert len(skipped) == sum(r["status"] in ("skipped", "not_run") for r in result["rungs"])


def test_junit_counts_what_it_has() -> None:
    root = parsed(junit.render_junit(dropped()))
    for name in ("tests", "failures", "errors", "skipped"):
        assert int(root.attrib[name]) == sum(int(suite.attrib[name]) for suite in root)
    cases = root.findall(".//testcase")
    assert int(root.attrib["tests"]) == len(cases)
    assert int(root.attrib["failures"]) == len(root.findall(".//failure"))
    assert parsed(junit.render_junit(built())).attrib["failures"] == "0"


def test_a_warning_passes_and_is_told() -> None:
    result = dropped()
    result["findings"] = [{**result["findings"][0], "severity": "warning"}]
    [case] = junit_of(result)["fullmesh.findings"].findall("testcase")
    assert case.find("failure") is None
    assert "VC-201" in str(case.findtext("system-out"))


def test_the_terminal_shows_the_matrix_and_what_follows() -> None:
    shown = summary(large(8))
    assert re.search(r"from \\ to +gpu-000 +gpu-001", shown)
    assert re.search(r"gpu-000 .*dropped", shown)
    assert re.search(r"follows  \[VC-301\]", shown)
    assert "from \\ to" not in summary(large(9))


def test_a_diagnosis_is_shown_without_a_ladder() -> None:
    made = dropped() | {"kind": "diagnose", "rungs": [], "failed_rungs": []}
    made["not_looked_at"] = [{"node": "el1", "what": "nftables", "why": "needs root"}]
    assert "not checked: el1: nftables: needs root" in summary(made)
    assert summary(made).startswith("FAILED: ")
    shown = Page(page.render_report_page(made)).text()
    assert "diagnosis" in shown
    assert "needs root" in shown
    assert "Proves" not in shown


def changes(old: dict[str, Any], new: dict[str, Any]) -> list[tuple[str, str, str]]:
    return [(c.kind, c.area, c.what) for c in compare.compare_results(old, new).changes]


def test_two_runs_of_a_healthy_cluster_do_not_differ() -> None:
    old, new = large(12, broken=False), large(12, broken=False)
    for row in new["links"]:
        row["rtt_ms"] = round(row["rtt_ms"] * 1.4, 3)
    found = compare.compare_results(old, new)
    assert (list(found.changes), found.worse) == ([], False)
    assert "nothing changed" in compare.format_comparison(found)[0]
    assert "Nothing changed" in page.render_report_page(new, found)


def test_what_got_worse_and_better_is_named() -> None:
    old, new = built(), dropped()
    names = [held["id"] for held in new["rungs"] if held["status"] != "passed"]
    found = changes(old, new)
    assert ("worse", "link", "el1 → ubuntu1") in found
    assert [kind for kind, area, _ in found if area == "check"] == ["worse"] * len(names)
    assert any(
        "VC-201" in what for kind, area, what in found if (kind, area) == ("worse", "finding")
    )
    back = changes(new, old)
    assert ("better", "link", "el1 → ubuntu1") in back
    assert not [kind for kind, _, _ in back if kind == "worse"]
    shown = Page(page.render_report_page(new, compare.compare_results(old, new))).text()
    assert "worse check L2" in shown


@pytest.mark.parametrize(
    ("key", "value", "area"), [("rtt_ms", 1.5, "round trip"), ("mbit_s", 900.0, "bandwidth")]
)
def test_a_figure_beyond_the_noise_is_named(key: str, value: float, area: str) -> None:
    old, new = large(10, broken=False), large(10, broken=False)
    new["links"][5][key] = value
    pair = f"{new['links'][5]['from']} → {new['links'][5]['to']}"
    assert changes(old, new) == [("worse", area, pair)]
    assert changes(new, old) == [("better", area, pair)]


def test_a_noisy_cluster_has_a_wider_noise() -> None:
    old, new = large(10, broken=False), large(10, broken=False)
    for index, row in enumerate(new["links"]):
        old["links"][index]["rtt_ms"] = 1.0
        row["rtt_ms"] = 2.0 if index % 2 else 0.5
    assert changes(old, new) == []


def test_versions_and_nodes_are_compared() -> None:
    old, new = large(9, broken=False), large(9, broken=False)
    for name in ("gpu-001", "gpu-002"):
        new["nodes"][name]["torch"] = "2.14.0"
    assert changes(old, new) == [("other", "version", "torch on gpu-001, gpu-002")]
    smaller = large(8, broken=False)
    found = compare.compare_results(smaller, old)
    assert ("other", "node", "gpu-008") in [(c.kind, c.area, c.what) for c in found.changes]
    assert found.notes


def test_collectives_are_compared() -> None:
    old, new = built(), built()
    new["collectives"]["bus_gbit_s"] = old["collectives"]["bus_gbit_s"] / 3
    assert changes(old, new) == [("worse", "collective", "all_reduce, bus bandwidth")]


def kept(runs: Path, result: dict[str, Any], name: str) -> Path:
    return write.save_result(runs, name, json.dumps({**result, "run": name}))


@pytest.fixture
def runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty place for runs."""
    monkeypatch.setattr(report_cli, "RUNS", tmp_path / "runs")
    return tmp_path / "runs"


def test_report_compares_with_the_run_before(
    runs: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    kept(runs, built(), "20260101T000000Z-aaaa")
    new = kept(runs, dropped(), "20260102T000000Z-bbbb")
    assert cli.main(["report", "--against"]) == 1
    assert "against 20260101T000000Z-aaaa" in capsys.readouterr().out
    assert cli.main(["report", str(runs / "20260101T000000Z-aaaa"), "--against", str(new)]) == 0
    assert "better" in capsys.readouterr().out


def test_two_runs_are_compared_the_second_is_shown(
    runs: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    older, newer = kept(runs, built(), "20260101T000000Z-old"), kept(runs, dropped(), "new")
    assert cli.main(["report", str(older), str(newer)]) == 1
    both = capsys.readouterr().out
    assert cli.main(["report", str(newer), "--against", str(older)]) == 1
    assert capsys.readouterr().out == both
    assert cli.main(["report", str(older), str(newer), str(older)]) == cli.USAGE
    assert "[CL-191]" in capsys.readouterr().err
    assert cli.main(["report", str(older), str(newer), "--against", str(older)]) == cli.USAGE
    assert "[CL-191]" in capsys.readouterr().err


def test_csv_writes_the_tables(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = kept(runs, built(), "one")
    assert cli.main(["report", str(path), "--csv"]) == 0
    said = capsys.readouterr().out
    for name in ("links.csv", "findings.csv", "ladder.csv"):
        assert str(path.with_name(name)) in said
        assert path.with_name(name).read_bytes().endswith(b"\r\n")


def test_a_run_that_holds_and_got_worse_is_a_problem(
    runs: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    slow = built()
    slow["links"] = [{**row, "rtt_ms": 9.0} for row in slow["links"]]
    kept(runs, built(), "20260101T000000Z-aaaa")
    kept(runs, slow, "20260102T000000Z-bbbb")
    assert cli.main(["report"]) == 0
    assert cli.main(["report", "--against"]) == 1
    assert "round trip" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("other", "says"),
    [
        ([], "[CL-107] 20260101T000000Z-aaaa is the first run here"),
        (["runs/none"], "[CL-107] no result at runs/none"),
    ],
)
def test_a_run_to_compare_with_that_is_not_there(
    runs: Path, other: list[str], says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    kept(runs, built(), "20260101T000000Z-aaaa")
    assert cli.main(["report", "--against", *other]) == 2
    assert says in capsys.readouterr().err


def test_html_writes_both_files(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    kept(runs, built(), "20260101T000000Z-aaaa")
    path = kept(runs, dropped(), "20260102T000000Z-bbbb")
    assert cli.main(["report", "--html", "--against"]) == 1
    assert str(path.parent / "report.html") in capsys.readouterr().out
    assert 'id="changes"' in (path.parent / "report.html").read_text()
    ET.parse(path.parent / "junit.xml")  # noqa: S314 (we wrote it)
    assert sorted(p.name for p in path.parent.iterdir()) == [
        "junit.xml",
        "report.html",
        "result.json",
    ]


@pytest.fixture
def action() -> Any:
    """The action plugin; the module of the same name only says what it does."""
    return load(ROOT / "action_plugins/run_result.py", "run_result_action")


def wanted(tmp_path: Path, result: dict[str, Any]) -> dict[str, Any]:
    return {"directory": str(tmp_path), "run": "run1", "result": result}


def test_the_action_writes_the_reports_beside_the_result(tmp_path: Path, action: Any) -> None:
    told = action.write_run_result(wanted(tmp_path, built()))
    assert told["path"] == str(tmp_path / "run1/result.json")
    assert told["reports"] == [str(tmp_path / "run1" / n) for n in ("junit.xml", "report.html")]
    assert told["reports"] == [str(path) for path in write.write_reports_beside(Path(told["path"]))]
    assert (tmp_path / "latest").resolve() == tmp_path / "run1"
    assert "failed" not in told


def test_a_report_that_fails_does_not_lose_the_result(tmp_path: Path, action: Any) -> None:
    told = action.write_run_result(wanted(tmp_path, {"no": "result"}))
    assert json.loads((tmp_path / "run1/result.json").read_text()) == {"no": "result"}
    assert told["reports"] == []
    assert "fullmesh report --html tries again" in told["warnings"][0]


def test_a_result_that_cannot_be_kept_is_a_failure(tmp_path: Path, action: Any) -> None:
    (tmp_path / "run1").write_text("a file where the directory must be")
    told = action.write_run_result(wanted(tmp_path, built()))
    assert told["failed"]
    assert "could not be written" in told["msg"]


def test_the_arguments_of_the_action_are_those_that_the_module_documents(action: Any) -> None:
    documented = yaml.safe_load(run_result.DOCUMENTATION)["options"]
    kinds = {name: {k: o[k] for k in ("type", "required")} for name, o in documented.items()}
    assert kinds == action.ARGUMENTS


def test_results_of_before_the_new_keys_are_shown() -> None:
    old = copy.deepcopy(built())
    for key in ("kind", "not_looked_at"):
        old.pop(key, None)
    assert Page(page.render_report_page(old)).stack == []
    assert link("a", "b", 1.0)["verdict"] == model.OPEN


@pytest.mark.parametrize("width", [80, 100, 200])
def test_a_brief_summary_keeps_to_its_lines(width: int) -> None:
    result = built(healthy())
    result["lab"] = "Look-alikes, " * 40
    result["rungs"][7]["reason"] = "not applicable: " + "no GPU on any node " * 4
    stream = io.StringIO()
    terminal.print_result(result, Console(file=stream, width=width), brief=True)
    told = stream.getvalue().splitlines()
    begun = next(at for at, line in enumerate(told) if line.startswith("L0 "))
    assert [line[:2] for line in told[begun : begun + 9]] == [f"L{n}" for n in range(9)]
    assert len([line for line in told if line.startswith("note: Look-alikes")]) == 1
    assert any("passed" in line for line in told)
    assert not any("alikes" in line for line in told if not line.startswith("note: "))


@pytest.mark.parametrize(
    ("names", "shown"),
    [
        (["gpu-1", "gpu-2"], ["gpu-1", "gpu-2"]),
        (["gpu-1.rack.example.org", "gpu-2.rack.example.org"], ["gpu-1", "gpu-2"]),
        (["a-rather-long-name-0001", "gpu-2"], ["…ong-name-0001", "gpu-2"]),
        (["2001:db8::aaaa:1", "2001:db8::aaaa:2"], ["…1:db8::aaaa:1", "…1:db8::aaaa:2"]),
        (["192.168.100.101", "192.168.100.102"], ["…2.168.100.101", "…2.168.100.102"]),
    ],
)
def test_names_beside_the_matrix_keep_what_tells_them_apart(
    names: list[str], shown: list[str]
) -> None:
    assert heat.shorten_node_names(names) == shown


def test_a_block_of_one_node_is_itself_and_not_a_link_that_nobody_tried() -> None:
    nodes = [f"n{at}" for at in range(3)]
    assert blocks.find_single_node_blocks(nodes, 2) == {1}
    assert blocks.list_first_nodes(nodes, 2) == ["n0", "n2"]
