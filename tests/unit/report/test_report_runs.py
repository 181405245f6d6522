"""The report verb and the action that writes its files."""

from __future__ import annotations

import copy
import io
import json
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

import pytest
import run_result
import yaml
from ladder_samples import healthy
from loaded import load_module
from report_pages import Page
from report_samples import build_result, link, make_dropped_link
from rich.console import Console

from fullmesh import cli
from fullmesh.report import (
    blocks,
    heat,
    model,
    page,
    terminal,
    write,
)
from fullmesh.settings import ROOT
from fullmesh.verbs import report as report_cli


def save_run(runs: Path, result: dict[str, Any], name: str) -> Path:
    return write.save_result(runs, name, json.dumps({**result, "run": name}))


@pytest.fixture
def runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty place for runs."""
    monkeypatch.setattr(report_cli, "RUNS", tmp_path / "runs")
    return tmp_path / "runs"


def test_report_compares_with_the_run_before(
    runs: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    save_run(runs, build_result(), "20260101T000000Z-aaaa")
    new = save_run(runs, make_dropped_link(), "20260102T000000Z-bbbb")
    assert cli.main(["report", "--against"]) == 1
    assert "against 20260101T000000Z-aaaa" in capsys.readouterr().out
    assert cli.main(["report", str(runs / "20260101T000000Z-aaaa"), "--against", str(new)]) == 0
    assert "better" in capsys.readouterr().out


def test_two_runs_are_compared_the_second_is_shown(
    runs: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    older, newer = (
        save_run(runs, build_result(), "20260101T000000Z-old"),
        save_run(runs, make_dropped_link(), "new"),
    )
    assert cli.main(["report", str(older), str(newer)]) == 1
    both = capsys.readouterr().out
    assert cli.main(["report", str(newer), "--against", str(older)]) == 1
    assert capsys.readouterr().out == both
    assert cli.main(["report", str(older), str(newer), str(older)]) == cli.USAGE
    assert "[CL-191]" in capsys.readouterr().err
    assert cli.main(["report", str(older), str(newer), "--against", str(older)]) == cli.USAGE
    assert "[CL-191]" in capsys.readouterr().err


def test_csv_writes_the_tables(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = save_run(runs, build_result(), "one")
    assert cli.main(["report", str(path), "--csv"]) == 0
    said = capsys.readouterr().out
    for name in ("links.csv", "findings.csv", "ladder.csv"):
        assert str(path.with_name(name)) in said
        assert path.with_name(name).read_bytes().endswith(b"\r\n")


def test_a_passed_but_slower_run_is_a_problem(
    runs: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    slow = build_result()
    slow["links"] = [{**row, "rtt_ms": 9.0} for row in slow["links"]]
    save_run(runs, build_result(), "20260101T000000Z-aaaa")
    save_run(runs, slow, "20260102T000000Z-bbbb")
    assert cli.main(["report"]) == 0
    assert cli.main(["report", "--against"]) == 1
    assert "round trip" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("other", "says"),
    [
        ([], "[CL-107] 20260101T000000Z-aaaa is the first run here"),
        (["runs/none"], "[CL-107] No result at runs/none"),
    ],
)
def test_a_run_to_compare_with_that_is_not_there(
    runs: Path, other: list[str], says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    save_run(runs, build_result(), "20260101T000000Z-aaaa")
    assert cli.main(["report", "--against", *other]) == 2
    assert says in capsys.readouterr().err


def test_html_writes_both_files(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    save_run(runs, build_result(), "20260101T000000Z-aaaa")
    path = save_run(runs, make_dropped_link(), "20260102T000000Z-bbbb")
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
    return load_module(ROOT / "action_plugins/run_result.py", "run_result_action")


def build_arguments(tmp_path: Path, result: dict[str, Any]) -> dict[str, Any]:
    return {"directory": str(tmp_path), "run": "run1", "result": result}


def test_the_action_writes_the_reports_next_to_the_result(tmp_path: Path, action: Any) -> None:
    told = action.write_run_result(build_arguments(tmp_path, build_result()))
    assert told["path"] == str(tmp_path / "run1/result.json")
    assert told["reports"] == [str(tmp_path / "run1" / n) for n in ("junit.xml", "report.html")]
    assert told["reports"] == [str(path) for path in write.write_reports_beside(Path(told["path"]))]
    assert (tmp_path / "latest").resolve() == tmp_path / "run1"
    assert "failed" not in told


def test_a_report_that_fails_does_not_lose_the_result(tmp_path: Path, action: Any) -> None:
    told = action.write_run_result(build_arguments(tmp_path, {"no": "result"}))
    assert json.loads((tmp_path / "run1/result.json").read_text()) == {"no": "result"}
    assert told["reports"] == []
    assert "fullmesh report --html tries again" in told["warnings"][0]


def test_a_result_that_cannot_be_stored_is_a_failure(tmp_path: Path, action: Any) -> None:
    (tmp_path / "run1").write_text("a file where the directory must be")
    told = action.write_run_result(build_arguments(tmp_path, build_result()))
    assert told["failed"]
    assert "could not be written" in told["msg"]


def test_the_actions_arguments_match_its_module_documentation(action: Any) -> None:
    documented = yaml.safe_load(run_result.DOCUMENTATION)["options"]
    kinds = {name: {k: o[k] for k in ("type", "required")} for name, o in documented.items()}
    assert kinds == action.ARGUMENTS


def test_results_of_before_the_new_keys_are_shown() -> None:
    old = copy.deepcopy(build_result())
    for key in ("kind", "not_looked_at"):
        old.pop(key, None)
    assert Page(page.render_report_page(old)).stack == []
    assert link("a", "b", 1.0)["verdict"] == model.OPEN


@pytest.mark.parametrize("width", [80, 100, 200])
def test_a_brief_summary_keeps_to_its_lines(width: int) -> None:
    result = build_result(healthy())
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
def test_names_next_to_the_matrix_stay_distinct(names: list[str], shown: list[str]) -> None:
    assert heat.shorten_node_names(names) == shown


def test_a_block_of_one_node_is_not_an_untested_link() -> None:
    nodes = [f"n{at}" for at in range(3)]
    assert blocks.find_single_node_blocks(nodes, 2) == {1}
    assert blocks.list_first_nodes(nodes, 2) == ["n0", "n2"]
