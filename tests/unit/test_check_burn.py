"""The level `burn` of `fullmesh-check`: the comparison of figures, and the checks without torch.

Real torch on three nodes: tests/hang/test_four_nodes.py.
"""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path
from typing import Any

import fullmesh_check
import fullmesh_check_burn as check_burn
import fullmesh_check_node as check_node
import pytest
from fullmesh_check_burn import BurnPlace

GPU, CPU = "NVIDIA H100", "CPU EPYC x 8"


def rank(node: int, tflops: float, device: str = GPU, **more: Any) -> dict[str, Any]:
    return {"node": node, "tflops": tflops, "device": device, "wrong": "", **more}


def exchange(slow: int | None, nodes: int = 3) -> list[dict[str, float]]:
    """Return the pairs of each node, of which one exchanges at a tenth of the others' rate."""
    return [
        {str(two): 1.0 if slow in (one, two) else 10.0 for two in range(nodes) if two != one}
        for one in range(nodes)
    ]


def run(*tflops: float, reduction: float = 0.0) -> dict[str, Any]:
    return {"tflops": list(tflops), "reduction": reduction}


def list_codes(
    own: int, ranks: list[dict[str, Any]], earlier: list[dict[str, Any]], nodes: int = 3
) -> list[str]:
    place = BurnPlace([f"n{number}" for number in range(nodes)], own, {})
    return [one.code for one in check_burn.judge_figures(place, ranks, earlier)]


SLOW_NODE = [rank(0, 100.0), rank(1, 101.0), rank(2, 70.0)]
SLOW_GPU = [rank(0, value) for value in (100.0, 101.0, 99.0, 80.0)]
SLOW_LINK = [rank(node, 100.0, pairs=pairs) for node, pairs in enumerate(exchange(2))]
EQUAL_LINKS = [rank(node, 100.0, pairs=pairs) for node, pairs in enumerate(exchange(None))]


@pytest.mark.parametrize(
    ("own", "ranks", "earlier", "codes"),
    [
        pytest.param(2, SLOW_NODE, [], ["HC-171"], id="slower than the peers"),
        pytest.param(0, SLOW_NODE, [], [], id="faster than a slow peer"),
        pytest.param(0, SLOW_GPU, [], ["HC-171"], id="one slow GPU of a node"),
        pytest.param(0, [rank(0, 90.0), rank(1, 100.0)], [], [], id="a small difference"),
        pytest.param(0, [rank(0, 50.0), rank(1, 100.0, "NVIDIA A10")], [], [], id="other devices"),
        pytest.param(0, [rank(0, 3.0, CPU), rank(1, 5.0, CPU)], [], [], id="busy CPUs"),
        pytest.param(0, [rank(0, 2.0, CPU), rank(1, 5.0, CPU)], [], ["HC-171"], id="slow CPUs"),
        pytest.param(0, [rank(0, 2.0, CPU), rank(0, 5.0, CPU)], [], [], id="halves of one CPU"),
        pytest.param(0, [rank(0, 80.0)], [run(100.0)] * 3, ["HC-171"], id="slower than earlier"),
        pytest.param(0, [rank(0, 80.0)], [run(100.0)] * 2, [], id="too few earlier runs"),
        pytest.param(2, SLOW_LINK, [], ["HC-172"], id="a slow link"),
        pytest.param(0, SLOW_LINK, [], [], id="the other end of a slow link"),
        pytest.param(1, EQUAL_LINKS, [], [], id="equal links"),
        pytest.param(
            0,
            [rank(0, 1.0, reduction=4.0), rank(0, 1.0, reduction=4.0)],
            [run(1.0, 1.0, reduction=10.0)] * 3,
            ["HC-172"],
            id="a slower all-reduce than earlier",
        ),
        pytest.param(
            0,
            [rank(0, 100.0, reduction=1.0), rank(1, 50.0, reduction=1.0)],
            [run(100.0, reduction=10.0)] * 3,
            [],
            id="an all-reduce with a slow node",
        ),
        pytest.param(
            2,
            [rank(0, 100.0), rank(2, 70.0, pairs={"0": 1.0}), rank(1, 100.0, pairs={"0": 9.0})],
            [],
            ["HC-171"],
            id="a slow node also sends slowly",
        ),
        pytest.param(
            1,
            [rank(0, 100.0), {**rank(1, 100.0), "wrong": "the sum of an all-reduce is wrong"}],
            [],
            ["HC-173"],
            id="wrong results",
        ),
        pytest.param(
            0, [rank(0, 100.0), {**rank(1, 100.0), "wrong": "x"}], [], [], id="of another node"
        ),
    ],
)
def test_figures_are_compared(
    own: int, ranks: list[dict[str, Any]], earlier: list[dict[str, Any]], codes: list[str]
) -> None:
    assert list_codes(own, ranks, earlier) == codes


@pytest.mark.parametrize("nodes", range(1, 14))
def test_nodes_are_paired_in_rounds(nodes: int) -> None:
    plans = [check_burn.list_partners(node, nodes) for node in range(nodes)]
    for node, partners in enumerate(plans):
        assert len(set(partners)) == len(partners)
        for turn, partner in enumerate(partners):
            assert partner != node
            assert partner >= nodes or plans[partner][turn] == node
    if 1 < nodes <= check_burn.MOST_ROUNDS:
        assert {one for one in plans[0] if one < nodes} == set(range(1, nodes))


def stand_in(tmp_path: Path, text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Use a STAND-IN for torch's Python, which prints a text."""
    program = tmp_path / "python"
    program.write_text(f"#!/bin/sh\ncat <<'END'\n{text}\nEND\n")
    program.chmod(stat.S_IRWXU)
    monkeypatch.setattr(check_burn, "PYTHON", str(program))
    monkeypatch.setattr(check_burn, "HISTORY", str(tmp_path / "burn.json"))


def answer(*ranks: dict[str, Any]) -> str:
    return "a warning of torch\n" + json.dumps({"torch": "2.13.0", "ranks": list(ranks)})


def test_runs_without_a_finding_become_the_history(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    figures = answer(rank(0, 100.0, reduction=9.0))
    stand_in(tmp_path, figures, monkeypatch)
    for number in range(check_burn.MOST_RUNS + 2):
        document = fullmesh_check.run_levels(["burn"], seconds=60.0)
        assert document["status"] == 0, document["text"]
        found = document["checks"]["burn"]["figures"]
        assert found["earlier"] == min(number, check_burn.MOST_RUNS)
        assert found["tflops"] == [100.0]
    stand_in(tmp_path, answer(rank(0, 50.0, reduction=9.0)), monkeypatch)
    for _ in range(2):
        document = fullmesh_check.run_levels(["burn"], seconds=60.0)
        assert document["status"] == 1
        assert "[HC-171] GPU 0 (NVIDIA H100) computes 50 TFLOP/s, 50 % of" in document["text"]
    assert len(check_burn.read_runs()) == check_burn.MOST_RUNS


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "torch gave no figures (exit status 0)"),
        ("Segmentation fault", "torch gave no figures (exit status 0) Segmentation fault"),
        (
            '{"error": "ModuleNotFoundError: No module named \'torch\'"}',
            "torch is not installed in",
        ),
        ('{"error": "RuntimeError: CUDA error: device is lost"}', "device is lost"),
        ('{"ranks": 7}', "TypeError: 'int' object"),
        ('{"torch": "2", "ranks": [{"node": 0}]}', "KeyError: 'device'"),
        (answer({**rank(0, 1.0), "tflops": "x"}), "TypeError"),
    ],
)
def test_without_figures_the_node_could_not_be_checked(
    text: str, words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stand_in(tmp_path, text, monkeypatch)
    document = fullmesh_check.run_levels(["burn"], seconds=60.0)
    assert document["status"] == 2
    assert "could not be checked: burn: " in document["text"]
    assert words in document["text"]
    assert not os.path.exists(check_burn.HISTORY)


def test_without_torch_the_node_could_not_be_checked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(check_burn, "HISTORY", str(tmp_path / "burn.json"))
    assert fullmesh_check.main(["burn", "--python", str(tmp_path / "none")]) == 2
    assert "could not be checked: burn: torch is not installed (" in capsys.readouterr().out


def test_burn_does_not_disturb_a_job_on_a_gpu(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "nvidia-smi").write_text("#!/bin/sh\necho 4711\n")
    (tmp_path / "nvidia-smi").chmod(stat.S_IRWXU)
    monkeypatch.setattr(check_node, "PATH", f"{tmp_path}:{check_node.PATH}")
    document = fullmesh_check.run_levels(["burn"], seconds=60.0)
    assert document["status"] == 2
    assert "process 4711 uses a GPU" in document["text"]


@pytest.mark.parametrize(
    "text", ["", "7", "{", '{"runs": 7}', '{"runs": [7, {"key": 7}, {"key": "k"}]}']
)
def test_a_damaged_history_is_empty(
    text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(check_burn, "HISTORY", str(tmp_path / "burn.json"))
    (tmp_path / "burn.json").write_text(text)
    assert check_burn.read_runs() == []


def test_every_node_has_another_place_and_the_same_store(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    nodes = [{"name": name, "address": f"10.0.0.{at}"} for at, name in enumerate("cba", 1)]
    plan = {"nodes": nodes, "master": {"port": 29500}}
    monkeypatch.setattr(check_node, "NODES", str(tmp_path / "nodes.json"))
    (tmp_path / "nodes.json").write_text(json.dumps(plan))
    for variable in ("SLURM_JOB_NODELIST", "SLURM_NODELIST"):
        monkeypatch.delenv(variable, raising=False)
    places = []
    for one in nodes:
        monkeypatch.setattr(check_node, "read_own_address", lambda one=one: one["address"])
        places.append(check_burn.find_place("", peers=True, folder=""))
    assert [one.own for one in places] == [0, 1, 2]
    assert {(*one.names, one.store["address"], one.store["port"]) for one in places} == {
        ("c", "b", "a", "10.0.0.1", 29500)
    }
