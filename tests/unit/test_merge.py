"""Runs that had a part of the nodes each become one result, in which nothing is made up."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterable
from itertools import permutations
from pathlib import Path
from typing import Any

import pytest
from ladder_samples import NAMES, healthy

from fullmesh import cli
from fullmesh.diagnose import root_cause
from fullmesh.result import read
from fullmesh.verify import build as builder
from fullmesh.verify import merge
from fullmesh.verify.model import ClusterObservations

WHOLE = "20260102T030500Z-whole"


def run_of(seen: ClusterObservations, second: int, name: str = "") -> dict[str, Any]:
    about = builder.VerificationRun(
        name or f"20260102T0304{second:02}Z-abcd",
        f"2026-01-02T03:04:{second:02}+00:00",
        f"2026-01-02T03:04:{second + 5:02}+00:00",
    )
    return root_cause.build_result(seen, about)


def part(*names: str, change: Any = None, count: int = 3) -> ClusterObservations:
    """Return the result of a run with some of the nodes."""
    seen = healthy(count)
    nodes = {}
    for name in names:
        nodes[name] = held = seen.nodes[name]
        held["links"]["links"] = [one for one in held["links"]["links"] if one["node"] in names]
    made = ClusterObservations(**{**seen.__dict__, "nodes": nodes})
    if change:
        change(made)
    return made


def parts(*groups: Iterable[str]) -> list[dict[str, Any]]:
    return [run_of(part(*names), 10 * number) for number, names in enumerate(groups)]


def rungs(result: dict[str, Any]) -> dict[str, str]:
    return {row["id"]: row["status"] for row in result["rungs"]}


def test_an_untested_link_stays_untested() -> None:
    made = merge.merge_results(parts(["el1", "ubuntu1"], ["ubuntu2"]))
    assert read.list_result_faults(made) == []
    assert {name: bool(node["kernel"]) for name, node in made["nodes"].items()} == dict.fromkeys(
        NAMES, True
    )
    assert {(row["from"], row["to"]) for row in made["links"]} == {
        ("el1", "ubuntu1"),
        ("ubuntu1", "el1"),
    }
    found = {row["id"]: row for row in made["rungs"]}
    # each node was compared with the plan, but nodes of two runs were not compared with each other
    assert found["L0"]["status"] == "passed"
    assert found["L1"]["status"] == "not_run"
    assert (found["L2"]["status"], found["L2"]["details"]["pairs"]) == ("not_run", 2)
    assert found["L2"]["reason"].startswith("only 2 of 6 links were tried")
    assert found["L3"]["reason"].startswith("no run had all nodes")
    assert (made["verdict"], made["exit_code"], made["collectives"]) == ("ok", 0, {})


def test_a_node_that_was_in_no_run_is_named() -> None:
    made = merge.merge_results(parts(["el1"], ["ubuntu1"]))
    found = {row["id"]: row for row in made["rungs"]}
    assert found["L0"]["status"] == "not_run"
    assert found["L0"]["reason"] == "ubuntu2 left out of this run (--limit)"


def test_runs_over_every_pair_of_parts_try_every_link() -> None:
    made = merge.merge_results(
        parts(["el1", "ubuntu1"], ["ubuntu1", "ubuntu2"], ["el1", "ubuntu2"])
    )
    found = {row["id"]: row for row in made["rungs"]}
    assert len(made["links"]) == 6
    assert found["L2"]["status"] == "passed"
    assert (found["L2"]["details"]["pairs"], found["L2"]["details"]["open"]) == (6, 6)
    assert found["L3"]["status"] == "not_run"


def test_a_run_over_all_nodes_brings_the_job() -> None:
    whole = run_of(healthy(), 40, WHOLE)
    made = merge.merge_results([whole, *parts(["el1", "ubuntu1"], ["ubuntu2"])])
    assert rungs(made) == rungs(whole)
    assert made["collectives"] == whole["collectives"]
    assert made["run"] == f"{WHOLE}-merged"


def test_a_finding_of_one_run_is_kept() -> None:
    def shut(seen: ClusterObservations) -> None:
        for one in seen.nodes["el1"]["links"]["links"]:
            one["verdict"] = "dropped"

    bad = run_of(part("el1", "ubuntu1", change=shut), 0)
    made = merge.merge_results([bad, run_of(part("ubuntu2"), 20)])
    assert (made["verdict"], made["exit_code"], made["failed_rungs"]) == ("failed", 1, ["L2"])
    assert made["findings"] == bad["findings"]
    assert [row["code"] for row in made["findings"] if row["severity"] == "error"] == ["VC-201"]


def test_a_later_run_replaces_the_state_of_a_link() -> None:
    def slow(seen: ClusterObservations) -> None:
        for one in seen.nodes["el1"]["links"]["links"]:
            one["rtt_ms"] = 7.0

    early, late = run_of(part("el1", "ubuntu1"), 0), run_of(part("el1", "ubuntu1", change=slow), 9)
    made = merge.merge_results([late, early])
    assert [row["rtt_ms"] for row in made["links"] if row["from"] == "el1"] == [7.0]
    assert len(made["links"]) == 2


def test_the_order_of_the_runs_does_not_matter() -> None:
    every = [*parts(["el1"], ["ubuntu1", "ubuntu2"]), run_of(healthy(), 40, WHOLE)]
    first = json.dumps(merge.merge_results(every), sort_keys=True)
    for some in permutations(copy.deepcopy(every)):
        assert json.dumps(merge.merge_results(some), sort_keys=True) == first


def test_counts_of_runs_that_overlap_are_not_added() -> None:
    def many(names: list[str], second: int, pairs: int) -> dict[str, Any]:
        made = run_of(part(*names), second)
        row = next(one for one in made["rungs"] if one["id"] == "L2")
        row["details"].update(pairs=pairs, open=pairs - 1)
        made["mesh"] = {
            "pairs": 6,
            "wanted": 6,
            "tried": pairs,
            "open": pairs - 1,
            "listeners": "one",
            "new": [],
            "by_node": {name: {"peers": 1, "open": 1, "rtt_us": second} for name in NAMES},
            "rtt_us": [[second, 20], [0, 1]],
        }
        return made

    one, other = many(["el1", "ubuntu1"], 5, 2), many(["ubuntu2"], 9, 1)
    mesh = merge.merge_results([one, other])["mesh"]
    assert (mesh["tried"], mesh["open"], mesh["rtt_us"]) == (3, 1, [[9, 20], [0, 1]])
    assert {name: held["rtt_us"] for name, held in mesh["by_node"].items()} == {
        "el1": 5,
        "ubuntu1": 5,
        "ubuntu2": 9,
    }
    assert merge.merge_results([one, many(["ubuntu1", "ubuntu2"], 9, 4)])["mesh"]["tried"] == 4


@pytest.fixture
def runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr("fullmesh.verbs.report.RUNS", tmp_path)
    return tmp_path


def save_run(runs: Path, result: dict[str, Any]) -> str:
    (runs / result["run"]).mkdir()
    (runs / result["run"] / "result.json").write_text(json.dumps(result))
    return str(runs / result["run"])


def test_the_verb_writes_and_shows_one_result(
    runs: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    names = [save_run(runs, one) for one in parts(["el1", "ubuntu1"], ["ubuntu2"])]
    assert cli.main(["report", "--merge", *names, "--html"]) == 0
    said = capsys.readouterr().out
    made = runs / "20260102T030410Z-abcd-merged"
    assert str(made / "report.html") in said
    assert read.load_result(made / "result.json")["run"] == made.name


def test_runs_that_do_not_belong_together_are_refused(
    runs: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    one, other = parts(["el1", "ubuntu1"], ["ubuntu2"])
    two = run_of(part("el1", count=2), 30)
    diagnosis = {**other, "kind": "diagnose", "run": "other"}
    first = save_run(runs, one)
    for odd, words in ((two, "their plans differ in nodes"), (diagnosis, "a run of verify")):
        assert cli.main(["report", "--merge", first, save_run(runs, odd)]) == cli.USAGE
        said = capsys.readouterr().err
        assert "[CL-116]" in said
        assert words in said
    assert cli.main(["report", "--merge", first, str(runs / "none")]) == cli.USAGE
    assert "[CL-107]" in capsys.readouterr().err
    assert cli.main(["report", "--merge", first]) == cli.USAGE
    assert "[CL-191]" in capsys.readouterr().err
    assert list(runs.glob("*-merged")) == []
