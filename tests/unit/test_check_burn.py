"""The level `burn` of `fullmesh-check`: the comparison of figures, and the checks without torch.

Real torch on three nodes: tests/hang/test_four_nodes.py.
"""

from __future__ import annotations

import json
import os
import pwd
import stat
from pathlib import Path
from typing import Any

import fullmesh_check
import fullmesh_check_burn as check_burn
import fullmesh_check_node as check_node
import pytest
from fullmesh_check_burn import BurnPlace, DeviceFigures

GPU, CPU = "NVIDIA H100", "CPU EPYC x 8"


def make_figures(node: int, tflops: float, device: str = GPU, **more: Any) -> DeviceFigures:
    return DeviceFigures(node, device, tflops, **more)


def make_pairs(slow: int | None, nodes: int = 3) -> list[dict[int, float]]:
    """Return the pairs of each node, of which one exchanges at a tenth of the others' rate."""
    return [
        {two: 1.0 if slow in (one, two) else 10.0 for two in range(nodes) if two != one}
        for one in range(nodes)
    ]


def make_run(*tflops: float, reduction: float = 0.0) -> dict[str, Any]:
    return {"tflops": list(tflops), "reduction": reduction}


def list_codes(
    own: int, ranks: list[DeviceFigures], earlier: list[dict[str, Any]], nodes: int = 3
) -> list[str]:
    place = BurnPlace([f"n{number}" for number in range(nodes)], own, {})
    return [one.code for one in check_burn.judge_figures(place, ranks, earlier)]


SLOW_NODE = [make_figures(0, 100.0), make_figures(1, 101.0), make_figures(2, 70.0)]
SLOW_GPU = [make_figures(0, value) for value in (100.0, 101.0, 99.0, 80.0)]
SLOW_LINK = [make_figures(node, 100.0, pairs=pairs) for node, pairs in enumerate(make_pairs(2))]
EQUAL_LINKS = [
    make_figures(node, 100.0, pairs=pairs) for node, pairs in enumerate(make_pairs(None))
]


@pytest.mark.parametrize(
    ("own", "ranks", "earlier", "codes"),
    [
        pytest.param(2, SLOW_NODE, [], ["HC-171"], id="slower than the peers"),
        pytest.param(0, SLOW_NODE, [], [], id="faster than a slow peer"),
        pytest.param(0, SLOW_GPU, [], ["HC-171"], id="one slow GPU of a node"),
        pytest.param(
            0, [make_figures(0, 90.0), make_figures(1, 100.0)], [], [], id="a small difference"
        ),
        pytest.param(
            0,
            [make_figures(0, 50.0), make_figures(1, 100.0, "NVIDIA A10")],
            [],
            [],
            id="other devices",
        ),
        pytest.param(
            0, [make_figures(0, 3.0, CPU), make_figures(1, 5.0, CPU)], [], [], id="busy CPUs"
        ),
        pytest.param(
            0,
            [make_figures(0, 2.0, CPU), make_figures(1, 5.0, CPU)],
            [],
            ["HC-171"],
            id="slow CPUs",
        ),
        pytest.param(
            0,
            [make_figures(0, 2.0, CPU), make_figures(0, 5.0, CPU)],
            [],
            [],
            id="halves of one CPU",
        ),
        pytest.param(
            0, [make_figures(0, 80.0)], [make_run(100.0)] * 3, ["HC-171"], id="slower than earlier"
        ),
        pytest.param(
            0, [make_figures(0, 80.0)], [make_run(100.0)] * 2, [], id="too few earlier runs"
        ),
        pytest.param(2, SLOW_LINK, [], ["HC-172"], id="a slow link"),
        pytest.param(0, SLOW_LINK, [], [], id="the other end of a slow link"),
        pytest.param(1, EQUAL_LINKS, [], [], id="equal links"),
        pytest.param(
            0,
            [make_figures(0, 1.0, reduction=4.0), make_figures(0, 1.0, reduction=4.0)],
            [make_run(1.0, 1.0, reduction=10.0)] * 3,
            ["HC-172"],
            id="a slower all-reduce than earlier",
        ),
        pytest.param(
            0,
            [make_figures(0, 100.0, reduction=1.0), make_figures(1, 50.0, reduction=1.0)],
            [make_run(100.0, reduction=10.0)] * 3,
            [],
            id="an all-reduce with a slow node",
        ),
        pytest.param(
            2,
            [
                make_figures(0, 100.0),
                make_figures(2, 70.0, pairs={0: 1.0}),
                make_figures(1, 100.0, pairs={0: 9.0}),
            ],
            [],
            ["HC-171"],
            id="a slow node also sends slowly",
        ),
        pytest.param(
            1,
            [
                make_figures(0, 100.0),
                make_figures(1, 100.0, wrong="the sum of an all-reduce is wrong"),
            ],
            [],
            ["HC-173"],
            id="wrong results",
        ),
        pytest.param(
            0,
            [make_figures(0, 100.0), make_figures(1, 100.0, wrong="x")],
            [],
            [],
            id="of another node",
        ),
    ],
)
def test_figures_are_compared(
    own: int, ranks: list[DeviceFigures], earlier: list[dict[str, Any]], codes: list[str]
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


def replace_python(tmp_path: Path, text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Use a STAND-IN for torch's Python, which prints a text."""
    program = tmp_path / "python"
    program.write_text(f"#!/bin/sh\ncat <<'END'\n{text}\nEND\n")
    program.chmod(0o755)
    monkeypatch.setattr(check_burn, "PYTHON", str(program))
    monkeypatch.setattr(check_burn, "HISTORY", str(tmp_path / "burn.json"))


@pytest.fixture
def tmp_path(open_folder: Path) -> Path:
    """Let the account of torch's processes enter the folder of a test."""
    return open_folder


def print_result(**change: Any) -> str:
    """Return the result of a rank as it prints it, with changes. None leaves a field out."""
    result = {"device": GPU, "tflops": 100.0, "reduction": 9.0, "pairs": {}, "wrong": "", **change}
    return json.dumps({name: value for name, value in result.items() if value is not None})


def print_answer(*results: object, counts: object = (1,)) -> str:
    """Return the output of torch's Python."""
    answer = {"torch": "2.13.0", "counts": counts, "results": results}
    return "a warning of torch\n" + json.dumps(answer)


def test_runs_without_a_finding_become_the_history(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    replace_python(tmp_path, print_answer(print_result()), monkeypatch)
    for number in range(check_burn.MOST_RUNS + 2):
        document = fullmesh_check.run_levels(["burn"], seconds=60.0)
        assert document["status"] == 0, document["text"]
        found = document["checks"]["burn"]["figures"]
        assert found["earlier"] == min(number, check_burn.MOST_RUNS)
        assert found["tflops"] == [100.0]
    replace_python(tmp_path, print_answer(print_result(tflops=50.0)), monkeypatch)
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
        ('{"error": 7}', "burn: 7"),
        ('{"error": "lost\\u001b[2J"}', "lost [2J"),
        ("{}", "no valid numbers of devices: None"),
        (print_answer(counts=7), "no valid numbers of devices: 7"),
        (print_answer(counts=[0]), "no valid numbers of devices: [0]"),
        (print_answer(counts=[True]), "no valid numbers of devices: [True]"),
        (print_answer(counts=[65]), "no valid numbers of devices: [65]"),
        (print_answer(counts=[1, 1]), "no valid numbers of devices: [1, 1]"),
        (print_answer(), "did not give the figures of all 1 devices"),
        (print_answer(print_result(), print_result()), "the figures of all 1 devices"),
        *(
            (print_answer(text), f"{os.uname()[1]} gave no valid figures ({why}")
            for text, why in (
                (7, "ForeignTextError"),
                ("7", "AttributeError"),
                ("[]", "AttributeError"),
                ("[" * 100_000, "ForeignLimitError"),
                (print_result(device=None), "KeyError: 'device'"),
                (print_result(wrong=None), "KeyError: 'wrong'"),
                (print_result(tflops="x"), "ValueError: 'x' is not a rate"),
                (print_result(tflops=True), "ValueError: True is not a rate"),
                (print_result(tflops=float("nan")), "ValueError: nan is not a rate"),
                (print_result(tflops=-1), "ValueError: -1 is not a rate"),
                (print_result(reduction=1e9), "ValueError: 1000000000.0 is not a rate"),
                (print_result(pairs=7), "AttributeError"),
                (print_result(pairs={"0": "fast"}), "ValueError: 'fast' is not a rate"),
            )
        ),
    ],
)
def test_without_figures_the_node_could_not_be_checked(
    text: str, words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    replace_python(tmp_path, text, monkeypatch)
    document = fullmesh_check.run_levels(["burn"], seconds=60.0)
    assert document["status"] == 2
    assert "could not be checked: burn: " in document["text"]
    assert words in document["text"]
    assert not os.path.exists(check_burn.HISTORY)


def test_a_node_speaks_for_its_own_devices_only() -> None:
    place = BurnPlace(["a", "b"], 0, {})
    lie = print_result(node=0, device="X\x1b[2J", wrong="y", pairs={"0": 1.0, "7": 1.0, "x": 1.0})
    answer = {"torch": "2.13.0", "counts": [2, 1], "results": [print_result()] * 2 + [lie]}
    ranks = check_burn.read_answer(answer, place).ranks
    assert [one.node for one in ranks] == [0, 0, 1]
    assert ranks[2] == DeviceFigures(1, "X [2J", 100.0, 9.0, {0: 1.0}, "y")
    assert check_burn.judge_figures(place, ranks, []) == []


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives up root")
def test_torch_does_not_run_as_root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(check_burn, "find_device_groups", lambda: ([44, 109], []))
    command = [*check_burn.drop_root(), "sh", "-c", "id -u; id -G"]
    status, text = check_node.run_tool(*command, seconds=20.0)
    account = pwd.getpwnam("nobody")
    groups = {str(account.pw_gid), "44", "109"}
    assert (status, text.split()[0], {*text.split()[1:]}) == (0, str(account.pw_uid), groups)
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert check_burn.drop_root() == []


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
