"""The result's schema, and the summary on the terminal."""

from __future__ import annotations

import io
import json
import re
from pathlib import Path
from typing import Any

import pytest
from ladder_samples import NAMES, healthy

from fullmesh.diagnose import root_cause
from fullmesh.report import terminal, write
from fullmesh.result import read, schema
from fullmesh.settings import ROOT
from fullmesh.verify import build as builder
from fullmesh.verify.model import ClusterObservations


def build(seen: ClusterObservations | None = None, **change: Any) -> dict[str, Any]:
    about = {
        "name": "20260102T030405Z-abcd",
        "started": "2026-01-02T03:04:05.5+00:00",
        "finished": "2026-01-02T03:04:15+00:00",
    }
    return root_cause.build_result(
        seen or healthy(), builder.VerificationRun(**{**about, **change})
    )


def break_cluster() -> ClusterObservations:
    seen = healthy(mode="off")
    for record in seen.nodes["el1"]["links"]["links"]:
        if record["node"] == "ubuntu1":
            record["verdict"] = "dropped"
    return seen


def test_results_follow_the_schema() -> None:
    for seen in (healthy(), break_cluster(), healthy(1), healthy(check_mode=True)):
        assert read.list_result_faults(build(seen)) == []


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("schema", 2),
        ("verdict", "maybe"),
        ("exit_code", 2),
        ("rungs", []),
        ("surprise", 1),
        ("findings", [{"code": "VC-201"}]),
        ("run", "../../etc"),
    ],
)
def test_a_result_that_violates_the_schema_is_refused(key: str, value: Any) -> None:
    assert read.list_result_faults({**build(), key: value})


def test_a_check_that_did_not_pass_has_a_reason() -> None:
    found = build()
    found["rungs"][0].update(status="skipped", reason="")
    assert read.list_result_faults(found)


def test_our_own_defect_is_not_written(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(builder, "SCHEMA", 99)
    with pytest.raises(ValueError, match=r"does not follow .* \$\.schema: Invalid enum value 99"):
        build()


def test_every_key_of_the_schema_is_documented() -> None:
    text = (ROOT / "docs/result.md").read_text()
    for key in schema.build_result_schema()["properties"]:
        assert re.search(rf"^\| `{key}`", text, re.MULTILINE), key


def test_seconds_are_never_negative() -> None:
    assert build()["seconds"] == 9.5
    assert build(finished="2020-01-01T00:00:00+00:00")["seconds"] == 0


def test_notes_and_systems_reach_the_result() -> None:
    notes = {"el1": [{"code": "PF-201", "text": "the firewall is off"}]}
    found = build(notes=notes, systems={"el1": "CentOS 9"}, lab="look-alikes")
    assert found["notes"] == [{"node": "el1", **notes["el1"][0]}]
    assert found["nodes"]["el1"]["os"] == "CentOS 9"
    assert found["lab"] == "look-alikes"


def written(folder: Path, found: dict[str, Any]) -> Path:
    path = folder / "result.json"
    path.write_text(json.dumps(found))
    return path


def summary(path: Path) -> tuple[int, str]:
    stream = io.StringIO()
    return terminal.print_summary(path, stream), stream.getvalue()


def test_the_summary_of_a_healthy_cluster(tmp_path: Path) -> None:
    code, text = summary(written(tmp_path, build()))
    assert code == 0
    assert text.startswith("OK: 3 nodes, 3 ranks")
    assert "6 of 6 open" in text
    assert "\x1b" not in text


def test_the_summary_of_a_broken_cluster(tmp_path: Path) -> None:
    code, text = summary(written(tmp_path, build(break_cluster())))
    assert code == 1
    assert text.startswith("FAILED at L2")
    for word in ("VC-201", "el1 -> ubuntu1", "THE FIREWALL IS OFF", "ansible-playbook site.yml"):
        assert word in text


def test_check_mode_is_the_headline(tmp_path: Path) -> None:
    code, text = summary(written(tmp_path, build(healthy(check_mode=True))))
    assert (code, text.startswith("CHECK MODE: 9 of 9")) == (0, True)


def test_notes_of_several_nodes_appear_once(tmp_path: Path) -> None:
    note = [{"code": "PF-201", "text": "odd [thing]"}]
    _, text = summary(written(tmp_path, build(notes=dict.fromkeys(NAMES, note))))
    assert text.count("odd [thing] (el1, ubuntu1, ubuntu2)") == 1


@pytest.mark.parametrize("content", [None, "no json", "{}", "[]"])
def test_an_invalid_result_gives_exit_code_2(
    tmp_path: Path, content: str | None, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "result.json"
    if content is not None:
        path.write_text(content)
    assert terminal.print_summary(path) == 2
    assert f"[CL-114] {path} " in capsys.readouterr().err


def test_an_invalid_field_is_reported_with_its_path(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found = build(break_cluster())
    found["links"][1]["verdict"] = "lost"
    assert terminal.print_summary(written(tmp_path, found)) == 2
    assert "schema 1: $.links[1].verdict: Invalid enum value 'lost'" in capsys.readouterr().err


def test_the_failure_names_checks_and_causes() -> None:
    text = terminal.describe_failure(build(break_cluster()))
    assert text.startswith("failed: L2 (every link, both directions)")
    assert "[VC-201] el1 -> ubuntu1" in text
    lines = terminal.format_summary(build(break_cluster()))
    assert lines[0].startswith("FAILED at L2")


def test_results_are_stored_and_the_latest_is_linked(tmp_path: Path) -> None:
    runs = tmp_path / "runs"
    for run in ("run1", "run2"):
        assert write.save_result(runs, run, "{}\n") == runs / run / "result.json"
    assert (runs / "latest").resolve() == runs / "run2"
    assert sorted(p.name for p in runs.iterdir()) == ["latest", "run1", "run2"]
