"""``fullmesh status``: real Ansible asks this machine, and every state, problem and exit code is shown."""

from __future__ import annotations

import io
import json
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from report_samples import build_result, make_dropped_link
from test_preflight import PLAN, load_answer, register_answers

from fullmesh import cli, cluster_status
from fullmesh.hang import ask
from fullmesh.model import membership
from fullmesh.model.types import ClusterPlan
from fullmesh.observed.node import NodeFacts
from fullmesh.play import options
from fullmesh.play.run import RunOutcome
from fullmesh.roles import preflight
from fullmesh.settings import ROOT
from fullmesh.verbs import report as report_verb
from fullmesh.verbs import status

NODE = "torch_nodes: {hosts: {a: {fullmesh_address: 203.0.113.1/24, ansible_connection: local}}}\n"
PENDING = {"name": "network", "what": "netplan", "since": "12:00", "seconds": 90}


def complete_plan() -> ClusterPlan:
    """The plan with all that it takes from the nodes."""
    near = {host: register_answers(load_answer(host)) for host in ("el1", "ubuntu1")}
    return preflight.judge_preflight(PLAN, near, list(near), {"now": 0})["plan"]


MEMBERS = membership.build_membership(complete_plan())


def set_configured(said: NodeFacts) -> None:
    said["drift"] = []
    said["members"] = {**MEMBERS}
    said["pending"] = []


def set_drift(said: NodeFacts) -> None:
    set_configured(said)
    said["drift"] = [f"/etc/file{at}: changed" for at in range(5)]


def set_outdated(said: NodeFacts) -> None:
    set_configured(said)
    said["members"] = {**said["members"], "digest": "other"}


def remove_manifest(said: NodeFacts) -> None:
    said["drift"], said["members"] = ["no manifest"], {}


def set_pending(said: NodeFacts) -> None:
    set_configured(said)
    said["pending"] = [PENDING]  # type: ignore[list-item]  # of recorded form


def judge(*changes: Any, ubuntu1: Any = set_configured) -> cluster_status.ClusterState:
    said = {"el1": load_answer("el1", *changes), "ubuntu1": load_answer("ubuntu1", ubuntu1)}
    now = said["el1"]["ansible_facts"]["fullmesh"]["epoch"]
    said["ubuntu1"]["ansible_facts"]["fullmesh"]["epoch"] = now
    near = {host: register_answers(one) for host, one in said.items()}
    return cluster_status.judge_cluster_state(PLAN, near, list(said), {"now": now})


@pytest.fixture
def runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where results are kept: none yet. The inventory is hosts.yml."""
    (tmp_path / "hosts.yml").write_text(NODE)
    monkeypatch.setattr(options, "STARTED_IN", tmp_path)
    monkeypatch.setattr(report_verb, "RUNS", tmp_path / "runs")
    return tmp_path / "runs"


def keep(runs: Path, result: Any) -> None:
    (runs / result["run"]).mkdir(parents=True)
    (runs / result["run"] / "result.json").write_text(json.dumps(result))


@pytest.fixture
def nodes(runs: Path, monkeypatch: pytest.MonkeyPatch) -> list[cluster_status.ClusterState]:
    """Answers of the nodes. The last one counts."""
    del runs
    answers = [judge(set_configured)]
    monkeypatch.setattr(
        status, "query_cluster", lambda *_: {**answers[-1], "reach": {"plan": PLAN, "hosts": {}}}
    )
    monkeypatch.setattr(status, "query_jobs", lambda *_: ([], {}))
    return answers


def run(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str]:
    code = cli.main(["status", "-i", "hosts.yml", *words])
    said = capsys.readouterr()
    return code, said.out + said.err


def test_healthy_nodes_without_any_run(
    nodes: list[Any], capsys: pytest.CaptureFixture[str]
) -> None:
    assert nodes[0]["faults"] == []
    code, told = run(capsys)
    assert code == cli.OK
    assert "OK: 2 nodes as configured" in told
    assert "last run  none" in told
    code, told = run(capsys, "--json")
    found = json.loads(told)
    assert code == cli.OK
    assert {name: one["state"] for name, one in found["nodes"].items()} == {
        "el1": "configured",
        "ubuntu1": "configured",
    }
    assert (found["last_run"], found["jobs"], found["problems"]) == (None, [], [])


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (set_drift, ("drifted", "ST-102", "and 3 more")),
        (set_outdated, ("outdated peers", "ST-102", "Fix: ./fullmesh apply -i ")),
        (remove_manifest, ("not configured", "ST-102", "Not as configured: el1.")),
        (set_pending, ("configured", "ST-103", "an unconfirmed change is pending")),
    ],
)
def test_a_problem_has_a_code_a_fix_and_exit_code_1(
    change: Any,
    expected: tuple[str, str, str],
    nodes: list[Any],
    capsys: pytest.CaptureFixture[str],
) -> None:
    state, code, shown = expected
    nodes.append(judge(change))
    left, told = run(capsys)
    assert left == cli.PROBLEM
    assert f"[{code}]" in told
    assert shown in told
    left, told = run(capsys, "--json")
    found = json.loads(told)
    assert (left, found["nodes"]["el1"]["state"]) == (cli.PROBLEM, state)
    assert found["problems"][0].startswith(f"[{code}]")


def test_a_last_run_that_failed_is_a_problem(
    runs: Path, nodes: list[Any], capsys: pytest.CaptureFixture[str]
) -> None:
    del nodes
    keep(runs, make_dropped_link() | {"run": "20260101T000000Z-aaaa"})
    code, told = run(capsys)
    assert code == cli.PROBLEM
    assert "[ST-104] The last run failed: FAILED at L2" in told
    keep(runs, build_result() | {"run": "20260102T000000Z-aaaa"})
    other = build_result() | {"run": "20260103T000000Z-aaaa", "nodes": {}}
    keep(runs, other)
    (runs / "20260104T000000Z-aaaa").mkdir()
    (runs / "20260104T000000Z-aaaa/result.json").write_text("{}")
    code, told = run(capsys)
    assert code == cli.OK
    assert "last run  OK: " in told
    assert "20260102T000000Z-aaaa" in told


def test_real_ansible_queries_this_machine(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    python = f"ansible_python_interpreter={sys.executable}"
    code, told = run(capsys, "--json", "--progress", "json", "-e", python)
    found = json.loads(told[told.index('{\n  "schema"') : told.rindex("\n}") + 2])
    assert code == cli.PROBLEM
    assert found["nodes"]["a"]["state"] == "not configured"
    assert isinstance(found["jobs"], list)
    assert not runs.exists()
    (runs.parent / "hosts.yml").write_text(
        NODE.replace("local}", "local, ansible_python_interpreter: /no/python}")
    )
    code, told = run(capsys)
    assert code == cli.USAGE
    assert "[ST-101] No answer from a." in told
    assert "jobs      unknown" in told


def test_a_plan_that_is_refused_gives_no_status(
    runs: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (runs.parent / "hosts.yml").write_text(NODE.replace("203.0.113.1/24", "no address"))
    code, told = run(capsys)
    assert code == cli.USAGE
    assert "[PL-104]" in told
    assert "[ST-105] No status: Ansible failed." in told
    assert cli.main(["status", "-i", "hosts.yml", "-v"]) == cli.PROBLEM
    assert cli.main(["status", "-i", "no/such"]) == cli.USAGE
    assert "[CL-106]" in capsys.readouterr().err


def test_an_expired_or_invalid_deadline(
    runs: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    del runs

    def late(_command: Any, _shown: Any, folder: Path, **_more: Any) -> RunOutcome:
        (folder / "ansible.log").write_text("waiting\n")
        return RunOutcome(1, folder / "ansible.log", in_time=False)

    monkeypatch.setattr("fullmesh.play.run.run_with_view", late)
    code, told = run(capsys)
    assert (code, "[ST-105] No status: the deadline passed." in told) == (cli.USAGE, True)
    code, told = run(capsys, "--deadline", "0")
    assert (code, "[CL-124]" in told) == (cli.USAGE, True)


def test_jobs_are_counted_by_account_and_nodes(monkeypatch: pytest.MonkeyPatch) -> None:
    def rank(number: int, host: str) -> Any:
        return {"rank": number, "host": host, "job": "train", "account": "ml"}

    look: Any = {"ranks": [rank(0, "el1")], "jobs": ["train"]}
    other: Any = {"ranks": [rank(1, "ubuntu1")], "jobs": ["train"]}
    answers = [
        ask.HangAnswer("el1", (look,)),
        ask.HangAnswer("ubuntu1", (other,)),
        ask.HangAnswer("el2", why="no route"),
    ]
    monkeypatch.setattr(ask, "query_hang_nodes", lambda *_: answers)
    reach: Any = {"plan": PLAN, "hosts": {name: {} for name in ("el1", "ubuntu1", "el2")}}
    jobs, unasked = status.query_jobs(reach, ["el1", "ubuntu1", "el2"], 5)
    assert jobs == [{"name": "train", "account": "ml", "ranks": 2, "nodes": ["el1", "ubuntu1"]}]
    assert unasked == {"el2": "no route"}
    report: Any = {"jobs": jobs, "unasked": unasked, "nodes": {}, "faults": [], "last_run": None}
    told = cluster_status.render_status({**report, "inventory": "x"})
    assert "jobs      train of ml (2 ranks on el1, ubuntu1); unknown on el2 (no route)" in told
    monkeypatch.setattr(ask, "query_hang_nodes", lambda *_: time.sleep(1) or [])
    assert status.query_jobs(reach, ["el1"], 0.01) == (None, {})
    assert status.query_jobs(reach, [], 5) == (None, {})


@pytest.mark.parametrize(
    ("answer", "lines"),
    [
        (None, []),
        ({"skipped": True}, []),
        ({"unreachable": True, "msg": "x"}, []),
        ({"rc": 127, "stdout_lines": []}, ["no checks are recorded (role node_health is off)"]),
        ({"rc": 124}, ["the checks cannot be read (exit status 124): no answer within 10 s"]),
        (
            {"rc": 1, "stderr": "Traceback\nOSError: disk"},
            ["check: /opt/fullmesh/bin/fullmesh-health history"],
        ),
        ({"rc": 2, "msg": "m" * 9000}, ["check: /opt/fullmesh/bin/fullmesh-health history"]),
        ({"rc": 0, "stdout_lines": ["not fit since 07:00", "x" * 900]}, ["not fit since 07:00"]),
        ({"rc": 0, "stdout_lines": [str(at) for at in range(99)]}, ["0", "15"]),
        ({"rc": 0, "stdout_lines": "text"}, []),
    ],
)
def test_the_history_of_a_node_is_bounded(answer: Any, lines: list[str]) -> None:
    found = cluster_status.list_history_lines(answer)
    assert set(lines) <= set(found)
    assert bool(found) == bool(lines)
    assert len(found) <= 16
    assert all(len(line) <= 500 for line in found)


def test_the_status_shows_the_history_of_each_node(
    nodes: list[Any], capsys: pytest.CaptureFixture[str]
) -> None:
    nodes.append(judge(set_configured))
    nodes[-1]["nodes"]["el1"]["history"] = ["not fit since 07:00"]
    assert "\n    not fit since 07:00\n" in run(capsys, "--since")[1]


@pytest.mark.parametrize("width", [60, 80, 120])
def test_the_status_fits_the_terminal(
    width: int, nodes: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    nodes.append(judge(set_drift))
    stream = io.StringIO()
    monkeypatch.setattr(stream, "isatty", lambda: True)
    monkeypatch.setattr(sys, "stdout", stream)
    monkeypatch.setenv("COLUMNS", str(width))
    assert cli.main(["status", "-i", "hosts.yml"]) == cli.PROBLEM
    told = stream.getvalue()
    path = str(options.STARTED_IN)
    assert all(len(line) <= width or path in line for line in told.splitlines())
    assert "el1      drifted" in told
    assert (ROOT / "playbooks/status.yml").is_file()
