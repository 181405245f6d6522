"""Questions to nodes: the controller ends, or stops the others."""

from __future__ import annotations

import asyncio
import importlib.util
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from ask_connections import TEST, make_query, result, started_node, way

from fullmesh.ask import answers, channel, program, rounds, talk
from fullmesh.settings import ROOT


@pytest.mark.usefixtures("_told")
def test_a_program_ends_with_the_controller(private: Path) -> None:
    line = make_query(private, how="sleep", text="60", seconds=60).line(
        "M", program.build_query_program(TEST.module)
    )
    node = started_node(line + program.build_query_program(TEST.module).data)
    assert node.stdin
    node.stdin.close()
    assert node.wait(timeout=10) == -9


def ask_together(
    ways: dict[str, channel.ConnectionSpec], questions: dict[str, talk.NodeQuery], first: str
) -> Any:
    """Ask all, and stop the rest once *first* has answered."""

    async def run() -> dict[str, rounds.Outcome]:
        stop = asyncio.Event()
        asks = {host: replace(one, stop=stop) for host, one in questions.items()}
        return await rounds.query_all_nodes(
            ways, asks, 5, lambda host, _: stop.set() if host == first else None
        )

    begun = time.monotonic()
    found = asyncio.run(run())
    assert time.monotonic() - begun < 30
    return found


@pytest.mark.usefixtures("_told")
def test_others_are_stopped_once_one_part_has_failed(private: Path) -> None:
    ways = {"bad": way(None), "good": way(None)}
    questions = {
        "bad": make_query(private, text="x", seconds=60),
        "good": make_query(private, how="stoppable", text="60", seconds=60),
    }
    found = ask_together(ways, questions, "bad")
    assert answers.build_task_result(ways["good"], found["good"])["text"] == "stopped"


@pytest.mark.usefixtures("_told")
def test_a_stop_before_the_program_has_begun_is_answered(private: Path) -> None:
    async def run() -> dict[str, rounds.Outcome]:
        stop = asyncio.Event()
        stop.set()
        query = make_query(private, how="stoppable", text="60", seconds=60)
        return await rounds.query_all_nodes({"a": way(None)}, {"a": replace(query, stop=stop)}, 5)

    for _ in ("without the program", "with it"):
        found = asyncio.run(run())["a"]
        assert answers.build_task_result(way(None), found)["text"] == "stopped"


@pytest.mark.usefixtures("_told")
def test_a_node_that_ignores_the_stop_delays_no_other(
    private: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(talk, "STOP_SECONDS", 0.5)
    deaf = "sleep 60"
    ways = {"bad": way(None), "deaf": way(None, command=deaf)}
    questions = {host: make_query(private, text="x", seconds=60) for host in ways}
    assert isinstance(ask_together(ways, questions, "bad")["deaf"], rounds.QueryTimeout)


def test_the_controller_itself_is_queried_without_ssh() -> None:
    assert answers.format_login_command(way(None, address="")) == "env"
    assert answers.format_login_command(way(None)) == "ssh ann@192.0.2.7"


@pytest.mark.usefixtures("_told")
def test_a_node_that_stops_in_mid_answer_is_lost(private: Path) -> None:
    question = replace(make_query(private, how="sleep", text="60", seconds=60), silence=1.0)
    said = result(way(None, command="echo x; sleep 60"), question)
    assert said["msg"].startswith(
        "[AK-102] The connection was lost before the node answered: it was"
    )


@pytest.mark.parametrize(
    ("answer", "seconds"),
    [
        ({"unreachable": True}, 0.0),
        ({"failed": True, "msg": "x"}, 0.0),
        ({"broken": 1.25}, 1.25),
        ({"done": True}, None),
    ],
)
def test_a_failed_part_is_recognized_by_its_answer(
    answer: dict[str, Any], seconds: float | None
) -> None:
    assert answers.read_broken_seconds(answer) == seconds


@pytest.fixture
def action(monkeypatch: pytest.MonkeyPatch) -> Any:
    """action_plugins/ask_nodes.py, which gives the others no time of their own."""
    spec = importlib.util.spec_from_file_location(
        "ask_nodes_action", ROOT / "action_plugins/ask_nodes.py"
    )
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, spec.name, module)
    spec.loader.exec_module(module)
    monkeypatch.setattr(module, "FOLLOW_SECONDS", 0.0)
    return module


class Modules:
    """Hosts that are asked by their module: what they answered once *ready* exists, and that they were stopped."""

    def __init__(self, ready: Path | None = None, **answers: dict[str, Any]) -> None:
        self.answers, self.stopped, self.ready = answers, False, ready
        self.threads = dict.fromkeys([*answers, "slow"]) if answers else {}

    @property
    def found(self) -> dict[str, dict[str, Any]]:
        return self.answers if self.ready is None or self.ready.exists() else {}

    def stop(self) -> None:
        self.stopped = True
        self.answers["slow"] = {"done": True}


@pytest.mark.usefixtures("_told")
def test_a_failed_part_stops_the_others_and_is_named_first(private: Path, action: Any) -> None:
    ways = {"bad": way(None), "good": way(None)}
    questions = {
        "bad": make_query(private, how="fail", text="no room", seconds=60),
        "good": make_query(private, how="stoppable", text="60", seconds=60),
    }
    asking = action.RunningQueries(ways, questions, Modules(), hold=False, together=True)
    found = asyncio.run(asking.ask())
    assert answers.build_task_result(ways["good"], found["good"])["text"] == "stopped"
    assert asking.first.startswith(
        "bad: [AK-104] The program failed on the node: ValueError: no room"
    )
    assert asking.late == set()


@pytest.mark.usefixtures("_told")
def test_hosts_that_run_their_module_stop_and_are_stopped(
    private: Path, action: Any, tmp_path: Path
) -> None:
    ready = tmp_path / "ready"
    modules = Modules(ready, bad={"failed": True, "msg": "[VC-305] It may not."})
    questions = {"good": make_query(private, how="stoppable", text=f"60 {ready}", seconds=60)}
    asking = action.RunningQueries(
        {"good": way(None)}, questions, modules, hold=False, together=True
    )
    found = asyncio.run(asking.ask())
    assert answers.build_task_result(way(None), found["good"])["text"] == "stopped"
    assert modules.stopped
    assert asking.first == "bad: [VC-305] It may not. The other nodes stop."


@pytest.mark.usefixtures("_told")
def test_unrelated_answers_stop_no_other_node(private: Path, action: Any) -> None:
    ways = {"bad": way(None), "good": way(None)}
    questions = {
        "bad": make_query(private, how="fail", text="no room", seconds=60),
        "good": make_query(private, text="x", seconds=60),
    }
    asking = action.RunningQueries(ways, questions, Modules(), hold=False, together=False)
    found = asyncio.run(asking.ask())
    assert answers.build_task_result(ways["good"], found["good"])["text"] == "x"
    assert asking.first == ""
