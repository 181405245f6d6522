"""The torchrun wrapper, rendered and run with a stand-in for torchrun."""

import os
import subprocess
from pathlib import Path

import pytest
from jinja2 import Environment, FileSystemLoader, StrictUndefined

from fullmesh import launchers as core

TEMPLATES = Path(__file__).resolve().parents[2] / "roles/launchers/templates"
ENV = """MASTER_ADDR=10.78.0.11
MASTER_PORT=29500
NNODES=2
NODE_RANK=1
NPROC_PER_NODE=4
FULLMESH_ADDRESS=10.78.0.12
FULLMESH_RENDEZVOUS=10.78.0.11:29400
NCCL_DEBUG=WARN
"""
C10D = ["--rdzv-backend=c10d", "--rdzv-endpoint=10.78.0.11:29400"]
SIZES = ["--nnodes=2", "--nproc-per-node=4", "--local-addr=10.78.0.12"]


@pytest.fixture
def wrapper(tmp_path: Path) -> Path:
    environment = Environment(  # noqa: S701 (a shell script, not a page)
        loader=FileSystemLoader(TEMPLATES), undefined=StrictUndefined
    )
    environment.filters["comment"] = lambda text: f"# {text}"
    text = environment.get_template("fullmesh-torchrun.j2").render(
        ansible_managed="managed",
        __launchers_env=tmp_path / "env",
        launchers_venv=tmp_path,
        launchers_rendezvous="c10d",
        launchers_join_timeout_seconds=300,
    )
    torchrun = tmp_path / "bin/torchrun"
    torchrun.parent.mkdir()
    torchrun.write_text('#!/bin/sh\nprintf "%s\\n" "$@" "debug $NCCL_DEBUG"\n')
    torchrun.chmod(0o755)
    (tmp_path / "env").write_text(ENV)
    path = tmp_path / "fullmesh-torchrun"
    path.write_text(text + "\n")
    return path


def call(wrapper: Path, *arguments: str, **env: str) -> "subprocess.CompletedProcess[str]":
    full = {"PATH": os.environ["PATH"]} | env
    return subprocess.run(
        ["/bin/sh", str(wrapper), *arguments], capture_output=True, text=True, env=full, check=False
    )


def test_c10d_is_told_who_hosts_the_store(wrapper: Path) -> None:
    lines = call(wrapper, "--id", "job1", "train.py", "two words", "").stdout.splitlines()
    told = "--rdzv-conf=is_host=0,join_timeout=300"
    assert lines == [
        *C10D,
        "--rdzv-id=job1",
        told,
        *SIZES,
        "train.py",
        "two words",
        "",
        "debug WARN",
    ]


def test_the_master_hosts_the_store(wrapper: Path) -> None:
    done = call(wrapper, "train.py", FULLMESH_ADDRESS="10.78.0.11", FULLMESH_JOIN_TIMEOUT="9")
    assert "--rdzv-conf=is_host=1,join_timeout=9" in done.stdout


def test_static_has_ranks_and_one_fixed_port(wrapper: Path) -> None:
    lines = call(wrapper, "--static", "--max-restarts=0", "train.py").stdout.splitlines()
    where = ["--node-rank=1", "--master-addr=10.78.0.11", "--master-port=29500"]
    assert lines == [*where, *SIZES, "--max-restarts=0", "train.py", "debug WARN"]


def test_what_the_caller_exports_wins(wrapper: Path) -> None:
    done = call(wrapper, "train.py", NCCL_DEBUG="INFO", FULLMESH_JOB="from systemd")
    assert "debug INFO" in done.stdout
    assert "--rdzv-id=from systemd" in done.stdout


@pytest.mark.parametrize(
    ("code", "arguments", "env"),
    [
        ("LA-102", ["train.py"], {"FULLMESH_ENV": "/nowhere/env"}),
        ("LA-104", [], {}),
        ("LA-104", ["--static"], {}),
        ("LA-104", ["--id"], {}),
        ("LA-105", ["train.py"], {"FULLMESH_RENDEZVOUS_MODE": "etcd"}),
    ],
)
def test_a_call_that_cannot_work_ends_with_two_and_a_code(
    wrapper: Path, code: str, arguments: list[str], env: dict[str, str]
) -> None:
    done = call(wrapper, *arguments, **env)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(f"[{code}]")


def test_a_node_without_torchrun_says_so(wrapper: Path) -> None:
    (wrapper.parent / "bin/torchrun").unlink()
    done = call(wrapper, "train.py")
    assert (done.returncode, done.stderr[:8]) == (2, "[LA-103]")


@pytest.mark.parametrize(
    "bad",
    [
        ("root; reboot", 300, 30),
        ("", 300, 30),
        ("root", 0, 30),
        ("root", 300, "soon"),
        ("root", -1, 30),
    ],
)
def test_settings_that_cannot_work_are_refused(bad: tuple[str, object, object]) -> None:
    assert [fault.code for fault in core.faults(*bad)] == ["LA-101"]


def test_settings_that_can_work_are_not() -> None:
    assert core.faults("train-user", 300, "30") == []
