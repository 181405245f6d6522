"""The open fault benchmark: answers are read strictly, and the scorer counts what it says."""

from __future__ import annotations

import contextlib
import importlib.util
import json
import os
import socket
import sys
from types import ModuleType

import pytest

from fullmesh.settings import ROOT


def load_part(name: str) -> ModuleType:
    """A part of the benchmark, which is in no package."""
    spec = importlib.util.spec_from_file_location(
        f"fault_benchmark_{name}", ROOT / f"benchmarks/faults/{name}.py"
    )
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


score = load_part("score")
adapters = load_part("adapters")
TRUTH = score.Truth("n2", "n1", ("n1 -> n2",), ("DG-113", "drop", "tc "))
RIGHT = {"node": "n2", "peer": "n1", "direction": "n1 -> n2", "cause": "port 29500: drop"}


def make_trial(case: str, truth: object, answer: dict[str, str], **more: object) -> object:
    return score.Trial(case, "link", "mine", truth, answer, **more)


@pytest.mark.parametrize(
    ("output", "answer"),
    [
        ("{}", {}),
        ('log line\n{"node": "n2", "cause": ""}\n', {"node": "n2"}),
        ('{"node": "old"}\n' + json.dumps(RIGHT), RIGHT),
    ],
)
def test_the_last_object_is_the_answer(output: str, answer: dict[str, str]) -> None:
    assert score.parse_answer(output) == answer


@pytest.mark.parametrize(
    "output",
    [
        "",
        "nothing wrong",
        "[1]",
        '{"node": 1}',
        '{"host": "n2"}',
        '{"node": ',
        "{}" + " " * (1 << 20),
    ],
)
def test_another_answer_is_refused(output: str) -> None:
    with pytest.raises(ValueError, match=r".+"):
        score.parse_answer(output)


@pytest.mark.parametrize(
    ("changed", "placed", "named"),
    [
        ({}, True, True),
        ({"node": "n1"}, False, True),
        ({"peer": ""}, False, True),
        ({"direction": "n2 -> n1"}, False, True),
        ({"cause": "[dg-113] a rule"}, True, True),
        ({"cause": "tc tbf on eth1"}, True, True),
        ({"cause": "raindrops"}, True, False),
        ({"cause": ""}, True, False),
    ],
)
def test_place_and_cause(changed: dict[str, str], placed: bool, named: bool) -> None:
    one = make_trial("a", TRUTH, {**RIGHT, **changed})
    assert (score.is_placed(one), score.is_named(one)) == (placed, named)


def test_a_fault_of_a_node_needs_no_peer_and_no_direction() -> None:
    one = make_trial("a", score.Truth("n2"), {"node": "n2", "peer": "n9", "direction": "x"})
    assert score.is_placed(one)
    assert not score.is_named(one)


@pytest.mark.parametrize(("ways", "placed"), [(("a -> b",), False), (("", "a -> b"), True)])
def test_an_answer_without_a_direction(ways: tuple[str, ...], placed: bool) -> None:
    one = make_trial("a", score.Truth("n2", "", ways), {"node": "n2"})
    assert score.is_placed(one) == placed


def test_the_figures() -> None:
    healthy = score.Truth()
    trials = [
        make_trial("right", TRUTH, RIGHT, seconds=1.0, cpu_seconds=0.1),
        make_trial("wrong place", TRUTH, {"node": "n1"}, seconds=2.0),
        make_trial("missed", TRUTH, {}, seconds=3.0),
        make_trial("crashed", TRUTH, {}, failed="ValueError", seconds=90.0),
        make_trial("quiet", healthy, {}),
        make_trial("alarm", healthy, RIGHT),
        make_trial("crash on a healthy state", healthy, {}, failed="OSError"),
        score.Trial("right", "link", "other", TRUTH, {}),
    ]
    found = score.score_adapter("mine", trials)
    assert (found.faults, found.found, found.placed, found.named) == (4, 2, 1, 1)
    assert (found.quiet, found.alarms, found.failed) == (3, 2, 2)
    assert found.precision == 0.5
    assert found.recall == 0.5
    assert found.seconds == 1.0
    other = score.score_adapter("other", trials)
    assert other.precision is None
    assert other.recall == 0.0
    table = score.render_table(trials)
    assert (
        "| mine | 50 % | 2 of 4 (50 %) | 1 of 4 (25 %) | 1 of 4 (25 %) | 2 of 3 | 2 | 1.0 s |"
        in table
    )
    assert "| other | none | 0 of 1 (0 %) |" in table
    assert [one.split(":")[0] for one in score.list_misses(trials, "mine")] == [
        "- wrong place",
        "- missed",
        "- crashed",
        "- alarm",
        "- crash on a healthy state",
    ]


def test_nothing_was_run() -> None:
    assert score.score_adapter("mine", []).recall is None
    assert score.render_table([]).count("\n|") == 3


def test_a_script_runs_for_each_direction() -> None:
    targets = [adapters.Target(name, ("sh", "-c"), f"192.0.2.{name}") for name in "12"]
    found = [
        (one.name, other.name, outcome)
        for one, other, outcome in adapters.ask_pairs(targets, "echo {to}; exit {to:.0}3")
    ]
    assert found == [("1", "2", (3, "192.0.2.2\n")), ("2", "1", (3, "192.0.2.1\n"))]


def find_listening_port() -> int:
    """Return a free port below those that the kernel gives to the connections of other tests."""
    for port in range(20000 + os.getpid() % 1000, 30000):
        with contextlib.suppress(OSError), socket.create_server(("0.0.0.0", port)):  # noqa: S104 (see its user)
            return port
    raise AssertionError("no free port")


def test_ports_are_closed_after_the_answer() -> None:
    adapters.PORTS = (find_listening_port(),)
    here = adapters.Target("1", ("sh", "-c"), "127.0.0.1")
    there = adapters.Target("2", ("true",), "127.0.0.1")
    assert adapters.ask_ports(ROOT, [here, there]) == {}
    with socket.create_server(("0.0.0.0", adapters.PORTS[0])):  # noqa: S104 (the adapter listens there, too)
        pass
