"""fullmesh-accelerate: the options of Accelerate's launcher from the plan, and rejected ones."""

from __future__ import annotations

import json
import os
from pathlib import Path

import fullmesh_accelerate as accelerate
import pytest
import yaml
from fullmesh_launch import HOOK

from fullmesh.roles import launchers

ENV = """MASTER_ADDR=10.78.0.11
MASTER_PORT=29500
WORLD_SIZE=4
NNODES=2
NODE_RANK=1
NPROC_PER_NODE={here}
FULLMESH_ADDRESS={address}
FULLMESH_RENDEZVOUS=10.78.0.11:29400
"""


class Started(Exception):  # noqa: N818 (what execve would have become)
    """A program takes the place of this one."""


@pytest.fixture
def node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    def become(path: str, words: list[str], env: dict[str, str]) -> None:
        raise Started(json.dumps([path, words, env]))

    monkeypatch.setattr(os, "execve", become)
    monkeypatch.setenv("FULLMESH_ENV", str(tmp_path / "env"))
    for name in (accelerate.CPU, "FULLMESH_HANG", "PYTHONPATH"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("FULLMESH_ACCELERATE", str(tmp_path / "accelerate"))
    torch_says(tmp_path, "echo a warning >&2; echo True")
    write_identity(tmp_path)
    return tmp_path


def write_identity(folder: Path, address: str = "10.78.0.12", here: int = 2) -> None:
    (folder / "env").write_text(ENV.format(address=address, here=here))


def torch_says(folder: Path, script: str) -> None:
    """Put an accelerate there whose Python answers what is asked of torch."""
    python = folder / "python"
    python.write_text(f"#!/bin/sh\n{script}\n")
    python.chmod(0o755)
    (folder / "accelerate").write_text(f"#!{python}\n")


def start_launcher(*argv: str) -> tuple[list[str], dict[str, str]]:
    with pytest.raises(Started) as ran:
        accelerate.main(argv)
    path, words, env = json.loads(str(ran.value))
    assert path == words[0]
    return words, env


def options(words: list[str]) -> dict[str, str]:
    """The options before the script that have a value."""
    named = [at for at, word in enumerate(words) if word.startswith("--")]
    without = ("--multi_gpu", "--same_network")
    return {words[at][2:]: words[at + 1] for at in named if words[at] not in without}


def test_it_gets_the_values_of_the_plan(node: Path) -> None:
    words, env = start_launcher("--mixed_precision", "bf16", "train.py", "two words")
    assert words[:3] == [str(node / "accelerate"), "launch", "--multi_gpu"]
    assert words[-4:] == ["--mixed_precision", "bf16", "train.py", "two words"]
    assert "--same_network" in words
    assert options(words).items() >= {
        ("num_machines", "2"),
        ("num_processes", "4"),
        ("machine_rank", "1"),
        ("main_process_ip", "10.78.0.11"),
        ("main_process_port", "29500"),
        ("rdzv_backend", "static"),
    }
    assert env["PET_LOCAL_ADDR"] == "10.78.0.12"
    assert env["PYTHONPATH"].split(os.pathsep)[0] == HOOK
    assert accelerate.CPU not in env


@pytest.mark.parametrize(("mode", "master"), [("--static", "fd78::11"), ("--c10d", "[fd78::11]")])
def test_an_ipv6_rendezvous_is_an_endpoint_and_an_address(
    node: Path, mode: str, master: str
) -> None:
    """Accelerate puts the port behind it for a rendezvous, and hands a master's address on (utils/launch.py)."""
    text = (node / "env").read_text()
    text = text.replace("10.78.0.11:29400", "[fd78::11]:29400").replace("10.78.0.11", "fd78::11")
    (node / "env").write_text(text.replace("10.78.0.12", "fd78::12"))
    words, env = start_launcher(mode, "train.py")
    assert options(words)["main_process_ip"] == master
    assert env["PET_LOCAL_ADDR"] == "fd78::12"


def test_without_a_gpu_ranks_are_one_world_all_the_same(
    node: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    torch_says(node, "echo False")
    assert start_launcher("train.py")[1][accelerate.CPU] == "true"
    monkeypatch.setenv(accelerate.CPU, "false")
    assert start_launcher("train.py")[1][accelerate.CPU] == "false"


def test_a_torch_that_does_not_answer_stops_it(
    node: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    torch_says(node, "echo No module named torch; exit 1")
    assert accelerate.main(["train.py"]) == 2
    said = capsys.readouterr().err
    assert "[LA-107]" in said
    assert "No module named torch" in said


@pytest.mark.parametrize(("address", "host"), [("10.78.0.11", 1), ("10.78.0.12", 0)])
def test_a_rendezvous_has_one_host(
    node: Path, monkeypatch: pytest.MonkeyPatch, address: str, host: int
) -> None:
    monkeypatch.setenv("FULLMESH_JOIN_TIMEOUT", "90")
    write_identity(node, address)
    words, _ = start_launcher("--c10d", "train.py")
    assert "--same_network" not in words
    told = options(words)
    assert (told["rdzv_backend"], told["main_process_port"]) == ("c10d", "29400")
    assert told["rdzv_conf"] == f"is_host={host},join_timeout=90"


def test_the_hook_can_be_omitted(node: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FULLMESH_HANG", "0")
    monkeypatch.delenv("PYTHONPATH", raising=False)
    assert "PYTHONPATH" not in start_launcher("train.py")[1]


def test_its_configuration_file_agrees(node: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert accelerate.main(["config"]) == 0
    held = yaml.safe_load(capsys.readouterr().out)
    words, _ = start_launcher("train.py")
    assert {name: str(held[name]) for name in options(words)} == options(words)
    assert (held["distributed_type"], held["same_network"]) == ("MULTI_GPU", True)


@pytest.mark.parametrize(
    ("argv", "here", "code"),
    [(["train.py"], 1, "LA-121"), ([], 2, "LA-104"), (["--c10d"], 2, "LA-104")],
)
def test_a_launch_that_cannot_start_is_refused(
    node: Path, capsys: pytest.CaptureFixture[str], argv: list[str], here: int, code: str
) -> None:
    write_identity(node, here=here)
    assert accelerate.main(argv) == 2
    assert f"[{code}]" in capsys.readouterr().err
    assert code in launchers.CODES


def test_a_missing_accelerate_or_nodes_file_names_its_source(
    node: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("FULLMESH_ACCELERATE")
    monkeypatch.setenv("PATH", str(node))
    assert accelerate.main(["train.py"]) == 2
    assert "[LA-107] accelerate is not installed" in capsys.readouterr().err
    (node / "env").unlink()
    assert accelerate.main(["train.py"]) == 2
    assert "[LA-102]" in capsys.readouterr().err
