"""fullmesh-deepspeed: the values that DeepSpeed's launcher gets from the plan, and the refusals."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import fullmesh_deepspeed as deepspeed
import fullmesh_launch as launch
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from ladder_samples import plan

from fullmesh.model.participants import build_job_members

ENV = """MASTER_ADDR=10.78.0.11
MASTER_PORT=29500
WORLD_SIZE=2
NODE_RANK=0
GLOO_SOCKET_IFNAME=eth1
FULLMESH_ADDRESS=10.78.0.11
NCCL_DEBUG=WARN
ODD='two words #x'
"""
PLAN = plan(2)
RANK = "/opt/fullmesh/bin/fullmesh-rank"


class Started(Exception):  # noqa: N818 (stands in for execve)
    """Raised in place of execve."""


@pytest.fixture
def node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Make a node with DeepSpeed and pdsh, whose peers answer."""

    def become(path: str, words: list[str], env: dict[str, str]) -> None:
        # read it like DeepSpeed: by its path, and more than once
        lines = [Path(env["DS_ENV_FILE"]).read_text() for _ in range(2)]
        assert lines[0] == lines[1]
        raise Started(json.dumps([path, words, env, lines[0].splitlines()]))

    for name, text in (
        ("deepspeed", "#!/opt/ds/bin/python3\n"),
        ("pdsh", "#!/bin/sh\n"),
        ("fullmesh-ssh", '#!/bin/sh\necho "Warning: $1" >&2\necho 0.19.8\n'),
    ):
        (tmp_path / name).write_text(text)
        (tmp_path / name).chmod(0o755)
    (tmp_path / "env").write_text(ENV)
    monkeypatch.setattr(os, "execve", become)
    monkeypatch.setattr(launch, "FOLDER", str(tmp_path))
    monkeypatch.setattr(deepspeed, "BIN", str(tmp_path))
    monkeypatch.setattr(launch, "BIN", str(tmp_path))
    monkeypatch.setattr(launch, "read_nodes_file", lambda: build_job_members(PLAN))
    monkeypatch.setattr(launch, "read_ssh_user", lambda: "train")
    monkeypatch.setattr(launch.pwd, "getpwuid", lambda _: type("One", (), {"pw_name": "train"}))
    monkeypatch.setenv("FULLMESH_DEEPSPEED", str(tmp_path / "deepspeed"))
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    for name in ("FULLMESH_ENV", "DS_ENV_FILE", "PDSH_SSH_ARGS_APPEND", "NCCL_DEBUG"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path


def start_launcher(*argv: str) -> tuple[list[str], dict[str, str], list[str]]:
    with pytest.raises(Started) as ran:
        deepspeed.main(argv)
    path, words, env, lines = json.loads(str(ran.value))
    assert path == words[0]
    return words[1:], env, lines


def test_deepspeed_gets_the_plan_and_starts_ranks_through_our_program(node: Path) -> None:
    words, env, lines = start_launcher("--bind_cores_to_rank", "train.py", "two words")
    assert words == [
        f"--hostfile={node}/hostfile",
        "--launcher=pdsh",
        "--no_ssh_check",
        "--master_addr=10.78.0.11",
        "--master_port=29500",
        "--force_multi",
        "--no_local_rank",
        "--no_python",
        "--bind_cores_to_rank",
        f"{node}/fullmesh-rank",
        "/opt/ds/bin/python3",
        "-u",
        "train.py",
        "two words",
    ]
    assert env["PDSH_SSH_ARGS_APPEND"] == f"-F {node}/ssh/config"
    # every rank reads its own node's file
    assert lines == []


def test_variables_of_caller_and_files_are_passed_on_only(
    node: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (node / ".deepspeed_env").write_text(
        "MINE=$HOME/x\nGLOO_SOCKET_IFNAME=eth9\n# not=me\nnothing\n"
    )
    monkeypatch.setenv("ODD", "mine #x")  # a variable of the plan that belongs to no library
    monkeypatch.setenv("NCCL_DEBUG", "INFO")
    monkeypatch.setenv("TORCH_DISTRIBUTED_DEBUG", "DETAIL")
    monkeypatch.setenv("NCCL_SOCKET_IFNAME", "eth7")
    monkeypatch.setenv("SOMETHING", "else")
    _, env, lines = start_launcher("train.py")
    wanted = ["MINE=$HOME/x", "NCCL_DEBUG=INFO", "ODD=mine #x", "TORCH_DISTRIBUTED_DEBUG=DETAIL"]
    assert lines == wanted
    assert "NCCL_SOCKET_IFNAME" not in env


def test_the_users_file_is_found_in_deepspeeds_places(
    node: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """First in the home, then in the current folder (runner.py, DEEPSPEED_ENVIRONMENT_PATHS)."""
    home = node / "home"
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("DS_ENV_FILE", "mine.env")
    (home / "mine.env").write_text("FROM=home\nONLY=home\n")
    assert start_launcher("train.py")[2] == ["FROM=home", "ONLY=home"]
    (node / "mine.env").write_text("FROM=here\n")
    assert start_launcher("train.py")[2] == ["FROM=here", "ONLY=home"]
    monkeypatch.setenv("DS_ENV_FILE", str(node / "mine.env"))
    assert start_launcher("train.py")[2] == ["FROM=here"]


def test_a_job_may_use_some_of_the_nodes(node: Path) -> None:
    words, _, lines = start_launcher("--nodes=ubuntu1", "/opt/job", "x")
    assert "--include=10.78.0.12" in words
    assert "--master_addr=10.78.0.12" in words
    assert "FULLMESH_NODES=ubuntu1" in lines
    assert words[-3:] == [f"{node}/fullmesh-rank", "/opt/job", "x"]


def test_a_rank_of_deepspeeds_has_its_place_in_the_plan(
    node: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    by_its_launcher = {"CROSS_SIZE": "2", "LOCAL_RANK": "0", "WORLD_SIZE": "2", "RANK": "7"}
    (node / "env").write_text(
        ENV.replace("FULLMESH_ADDRESS=10.78.0.11", "FULLMESH_ADDRESS=10.78.0.12")
    )
    found = launch.build_rank_env(by_its_launcher, build_job_members(PLAN))
    assert (found["RANK"], found["WORLD_SIZE"], found["GLOO_SOCKET_IFNAME"]) == ("1", "2", "eth1")
    with pytest.raises(launch.LaunchError, match="LA-112"):
        launch.build_rank_env({**by_its_launcher, "WORLD_SIZE": "3"}, build_job_members(PLAN))
    # torchrun and others also set LOCAL_RANK
    del by_its_launcher["CROSS_SIZE"]
    with pytest.raises(launch.LaunchError, match=r"LA-112.*No variable shows"):
        launch.build_rank_env(by_its_launcher, build_job_members(PLAN))


@pytest.mark.parametrize(
    ("ssh", "code"),
    [
        ("echo 'Permission denied (publickey).'; exit 255", r"LA-110\].*el1 \(Permission denied"),
        ("echo \"No module named 'deepspeed'\"; exit 1", r"LA-107\].*el1 \(No module named"),
        ("echo 0.19.$(echo $1 | tail -c 2)", r"LA-115\].*el1: 0.19.1, ubuntu1: 0.19.2"),
    ],
)
def test_nodes_where_deepspeed_must_fail_are_refused(
    node: Path, capsys: pytest.CaptureFixture[str], ssh: str, code: str
) -> None:
    (node / "fullmesh-ssh").write_text(f"#!/bin/sh\n{ssh}\n")
    assert deepspeed.main(["train.py"]) == 2
    assert re.match(r"\[" + code, capsys.readouterr().err)


@pytest.mark.parametrize(
    ("missing", "code"), [("deepspeed", "LA-107"), ("pdsh", "LA-107"), ("user", "LA-114")]
)
def test_a_missing_file_is_refused_before_any_query(
    node: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    missing: str,
    code: str,
) -> None:
    monkeypatch.setattr(launch, "run_on_nodes", lambda *_: pytest.fail("asked"))
    if missing == "user":
        monkeypatch.setattr(launch, "read_ssh_user", lambda: "other-user")
    else:
        (node / missing).unlink()
        monkeypatch.delenv("FULLMESH_DEEPSPEED")
        monkeypatch.setenv("PATH", str(node))
    assert deepspeed.main(["train.py"]) == 2
    said = capsys.readouterr().err
    assert said.startswith(f"[{code}]")
    if missing == "user":
        assert "runuser -u other-user --" in said
        assert "/fullmesh-deepspeed train.py" in said


def pass_argument(word: str) -> str:
    """Return a word as a rank gets it, through models of DeepSpeed 0.19 (PDSHRunner), pdsh(1) and a shell."""
    if " " in word:
        word = '"{}"'.format(word.replace('"', '\\"'))
    return at_the_shell(word)


def pass_variable(value: str) -> str:
    """Return a variable's value as a rank gets it, through DeepSpeed's add_export (multinode_runner.py)."""
    value = value.strip()
    if re.search(r"[^\w@%+=:,./-]", value):
        value = f'"{value}"'
    return at_the_shell(value)


def at_the_shell(word: str) -> str:
    assert not re.search(r"%[^%]", word.replace("%%", ""))
    script = "printf %s " + word.replace("%%", "%")
    done = subprocess.run(["/bin/sh", "-c", script], check=True, capture_output=True)
    return done.stdout.decode()


WORDS = st.text(st.characters(codec="ascii", categories=("L", "N", "P", "S", "Zs")), max_size=12)


@given(WORDS)
@example("a b%h$(id)`id`\\\"'")
@example("x;id")
@example("100%")
def test_an_argument_arrives_as_it_was_typed(word: str) -> None:
    assert pass_argument(deepspeed.quote_argument(word)) == word


@given(WORDS)
@example('{"a": "$HOME %n"}')
def test_a_variable_arrives_as_it_was_set(value: str) -> None:
    value = value.strip()
    assert pass_variable(deepspeed.quote_variable(value)) == value


def test_a_missing_script_is_refused(node: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert deepspeed.main([]) == 2
    assert "[LA-104]" in capsys.readouterr().err
    done = subprocess.run(
        [sys.executable, str(deepspeed.__file__)], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr[:8]) == (2, "[LA-104]")
