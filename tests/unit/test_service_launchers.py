"""Launchers of services: the commands that they start from the plan, and those that they refuse before they wait."""

from __future__ import annotations

import json
import os
import socket
import sys
from pathlib import Path
from typing import Any

import fullmesh_services
import pytest

from fullmesh.model import services
from fullmesh.roles import launchers

HEAD, WORKER = "10.78.0.11", "10.78.0.12"
ENV = """MASTER_ADDR={master}
MASTER_PORT=29500
WORLD_SIZE=2
NNODES=2
NODE_RANK=1
NPROC_PER_NODE=1
GLOO_SOCKET_IFNAME=eth1
FULLMESH_ADDRESS={address}
"""


class Started(Exception):  # noqa: N818 (what execve would have become)
    """A program takes the place of this one."""


class Node:
    """A node's files, and what was started on it."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.folder, self.patch = folder, monkeypatch
        monkeypatch.setattr(fullmesh_services, "FOLDER", str(folder))
        monkeypatch.setenv("FULLMESH_ENV", str(folder / "env"))
        self.ray = folder / "ray"
        self.ray.write_text("#!/bin/true\n")
        monkeypatch.setenv("FULLMESH_RAY", str(self.ray))
        monkeypatch.setattr(os, "execve", self.execve)
        self.serve(["ray", "jax"])
        self.be(HEAD, HEAD)

    def serve(self, entries: list[Any]) -> None:
        made: Any = {"services": services.read_services(entries, ["a", "b"], [])}
        (self.folder / "services.json").write_text(launchers.render_services_file(made))

    def be(self, address: str, master: str) -> None:
        (self.folder / "env").write_text(ENV.format(master=master, address=address))

    def execve(self, path: str, words: list[str], env: dict[str, str]) -> None:
        raise Started(json.dumps([path, words, env]))

    def start(self, *argv: str) -> tuple[list[str], dict[str, str]]:
        with pytest.raises(Started) as ran:
            fullmesh_services.main(argv)
        path, words, env = json.loads(str(ran.value))
        assert path == words[0]
        return words, env


@pytest.fixture
def node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Node:
    return Node(tmp_path, monkeypatch)


def test_every_port_of_the_preset_is_handed_to_ray(node: Node) -> None:
    node.patch.setattr(fullmesh_services, "refuse_taken_ports", lambda *_args, **_more: None)
    words, _ = node.start("ray", "start", "--num-gpus=8")
    given = {word.split("=")[-1] for word in words}
    for port in json.loads((node.folder / "services.json").read_text()):
        if port["service"] == "ray":
            assert {str(port["first"]), str(port["last"])} <= given, port
    assert words[1:4] == ["start", f"--node-ip-address={HEAD}", "--head"]
    assert words[-1] == "--num-gpus=8"


def test_a_ray_without_its_client_is_not_asked_for_one(node: Node) -> None:
    node.patch.setattr(fullmesh_services, "refuse_taken_ports", lambda *_args, **_more: None)
    assert "--ray-client-server-port=10001" in node.start("ray", "start")[0]
    node.ray.write_text("#!/bin/false\n")
    assert "--ray-client-server-port=10001" not in node.start("ray", "start")[0]


def test_a_worker_joins_the_head_without_its_ports(node: Node) -> None:
    node.be(WORKER, HEAD)
    waited = []
    node.patch.setattr(fullmesh_services, "refuse_taken_ports", lambda *_args, **_more: None)
    node.patch.setattr(fullmesh_services, "wait_for_head", lambda *where: waited.append(where))
    words, env = node.start("ray", "start")
    assert f"--address={HEAD}:6379" in words
    assert not {"--head", "--port=6379", "--dashboard-port=8265"} & set(words)
    assert waited == [(HEAD, 6379, fullmesh_services.HEAD_SECONDS)]
    assert env["VLLM_HOST_IP"] == WORKER
    assert env["RAY_USAGE_STATS_ENABLED"] == "0"
    assert env["GLOO_SOCKET_IFNAME"] == "eth1"
    assert not set(fullmesh_services.RANKS) & env.keys()


def test_addresses_of_ipv6_are_bracketed(node: Node) -> None:
    node.be("fd78::12", "fd78::11")
    words, _ = node.start("ray", "status")
    assert words[1:] == ["status", "--address=[fd78::11]:6379"]
    node.patch.setattr(fullmesh_services, "wait_for_head", lambda *_: None)
    node.patch.setattr(
        fullmesh_services, "refuse_taken_ports", lambda *_: None
    )  # no such address here
    words, env = node.start("ray", "start")
    assert words[1:4] == ["start", "--node-ip-address=fd78::12", "--address=[fd78::11]:6379"]
    assert env["VLLM_HOST_IP"] == "fd78::12"
    _, env = node.start("jax", "train.py")
    assert env["JAX_COORDINATOR_ADDRESS"] == "[fd78::11]:8482"


def test_jax_learns_its_coordinator_and_its_place(node: Node) -> None:
    node.be(WORKER, HEAD)
    words, env = node.start("jax", "train.py", "--steps", "3")
    assert words == [sys.executable, "train.py", "--steps", "3"]
    assert env["JAX_COORDINATOR_ADDRESS"] == f"{HEAD}:8482"
    assert (env["JAX_NUM_PROCESSES"], env["JAX_PROCESS_ID"]) == ("2", "1")


def read_refusal(capsys: pytest.CaptureFixture[str], *argv: str) -> str:
    assert fullmesh_services.main(argv) == 2
    return capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "named"),
    [
        (["--head"], "--head"),
        (["--num-gpus=8", "--address", "10.78.0.9:6379", "--head"], "--address --head"),
        (["--node-ip-address=10.77.0.12"], "--node-ip-address=10.77.0.12"),
        (["--port=6380", "--object-manager-port=1"], "--port=6380 --object-manager-port=1"),
    ],
)
def test_a_second_head_and_other_ports_are_refused(
    node: Node, capsys: pytest.CaptureFixture[str], words: list[str], named: str
) -> None:
    node.be(WORKER, HEAD)
    said = read_refusal(capsys, "ray", "start", *words)
    assert "[LA-180]" in said
    assert f"was given {named}, which the cluster plan decides" in said


@pytest.mark.parametrize("argv", [("ray",), ("ray", "restart"), ("jax",)])
def test_half_a_command_is_refused(
    node: Node, capsys: pytest.CaptureFixture[str], argv: tuple[str, ...]
) -> None:
    assert "[LA-104]" in read_refusal(capsys, *argv)


def test_a_service_that_the_plan_does_not_have_is_refused(
    node: Node, capsys: pytest.CaptureFixture[str]
) -> None:
    node.serve(["jax"])
    assert "[LA-117] ray is not among the services" in read_refusal(capsys, "ray", "status")
    (node.folder / "services.json").unlink()
    assert "[LA-102]" in read_refusal(capsys, "ray", "status")


def test_a_ray_that_is_not_there_is_refused(node: Node, capsys: pytest.CaptureFixture[str]) -> None:
    node.patch.delenv("FULLMESH_RAY")
    node.patch.setenv("PATH", str(node.folder))
    node.patch.setattr(sys, "executable", str(node.folder / "python"))
    assert "[LA-107] ray is not installed" in read_refusal(capsys, "ray", "start")


def test_ports_in_use_are_named_at_once(node: Node, capsys: pytest.CaptureFixture[str]) -> None:
    node.be("127.0.0.1", "127.0.0.1")
    with (
        socket.create_server(("127.0.0.1", 0)) as one,
        socket.create_server(("127.0.0.1", 0)) as two,
    ):
        first, second = one.getsockname()[1], two.getsockname()[1]
        node.serve([{"name": "ray", "ports": {"gcs": first, "metrics": second}}])
        said = read_refusal(capsys, "ray", "start")
    assert "[LA-119]" in said
    assert f"{second} (metrics), {first} (gcs)" in said


def test_an_address_that_the_node_does_not_have_is_refused(
    node: Node, capsys: pytest.CaptureFixture[str]
) -> None:
    node.be("192.0.2.1", "192.0.2.1")
    assert "[LA-118] Cannot listen on 192.0.2.1" in read_refusal(capsys, "ray", "start")


def test_a_worker_names_the_head_and_why_it_gives_up(
    node: Node, capsys: pytest.CaptureFixture[str]
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as gone:
        port = gone.getsockname()[1]
    node.patch.setattr(fullmesh_services, "SAY_SECONDS", 0.0)
    with pytest.raises(
        fullmesh_services.LaunchError, match=r"\[LA-120\] No head of Ray at 127.0.0.1:\d+"
    ):
        fullmesh_services.wait_for_head("127.0.0.1", port, 0.7)
    said = capsys.readouterr().err
    assert f"waiting for the head at 127.0.0.1:{port}: Connection refused" in said
    with socket.create_server(("127.0.0.1", 0)) as head:
        fullmesh_services.wait_for_head("127.0.0.1", head.getsockname()[1], 5)


def free(node: Node) -> None:
    """Let the node look as if no port of a server were in use."""
    node.patch.setattr(fullmesh_services, "refuse_taken_ports", lambda *_args, **_more: None)


@pytest.fixture
def servers(node: Node) -> Node:
    """A node whose plan has vLLM and SGLang, and which has vLLM's command."""
    node.serve(["vllm", "sglang"])
    (node.folder / "vllm").write_text("#!/bin/true\n")
    node.patch.setenv("FULLMESH_VLLM", str(node.folder / "vllm"))
    free(node)
    return node


def test_vllm_serves_on_the_master_and_works_headless_elsewhere(servers: Node) -> None:
    joint = [
        *("--nnodes=2", "--node-rank=1", f"--master-addr={HEAD}", "--master-port=29501"),
        "--data-parallel-rpc-port=29550",
    ]
    words, env = servers.start("vllm", "serve", "m", "--tensor-parallel-size=2")
    asked = ["serve", "m", "--tensor-parallel-size=2"]
    assert words[1:] == [*asked, *joint, f"--host={HEAD}", "--port=8000"]
    assert env["VLLM_HOST_IP"] == env["VLLM_NIXL_SIDE_CHANNEL_HOST"] == HEAD
    assert env["VLLM_NIXL_SIDE_CHANNEL_PORT"] == "5600"
    assert env["GLOO_SOCKET_IFNAME"] == "eth1"
    assert not set(fullmesh_services.RANKS) & env.keys()
    servers.be(WORKER, HEAD)
    words, env = servers.start("vllm", "serve", "m", "--host=0.0.0.0")
    assert words[1:] == ["serve", "m", "--host=0.0.0.0", *joint, "--headless"]
    assert env["VLLM_HOST_IP"] == WORKER


def test_sglang_gets_the_store_of_the_master_on_every_node(servers: Node) -> None:
    servers.be(WORKER, HEAD)
    words, env = servers.start("sglang", "--model-path", "m", "--tp=2")
    assert words == [
        *(sys.executable, "-m", "sglang.launch_server", "--model-path", "m", "--tp=2"),
        *("--nnodes=2", "--node-rank=1", f"--dist-init-addr={HEAD}:20000"),
        *(f"--host={WORKER}", "--port=30000"),
    ]
    assert env["SGLANG_HOST_IP"] == WORKER
    assert env["PYTHONSAFEPATH"] == "1"
    servers.be("fd78::12", "fd78::11")
    words, _ = servers.start("sglang", "--model-path=m", "--host", "::")
    assert words[-4:-1] == ["--nnodes=2", "--node-rank=1", "--dist-init-addr=[fd78::11]:20000"]
    assert "--host=fd78::12" not in words


def test_ports_of_the_plan_reach_the_servers(servers: Node) -> None:
    servers.serve(
        [
            {"name": "vllm", "ports": {"api": 8080, "init": 29511, "nixl": "5700-5701"}},
            {"name": "sglang", "ports": {"api": 30080, "init": 21000}},
        ]
    )
    words, env = servers.start("vllm", "serve", "m")
    assert {"--master-port=29511", "--port=8080"} <= set(words)
    assert env["VLLM_NIXL_SIDE_CHANNEL_PORT"] == "5700"
    words, _ = servers.start("sglang", "--model-path", "m")
    assert {f"--dist-init-addr={HEAD}:21000", "--port=30080"} <= set(words)


def test_a_single_node_has_no_ranks_to_join(servers: Node) -> None:
    path = servers.folder / "env"
    path.write_text(path.read_text().replace("NNODES=2", "NNODES=1"))
    words, _ = servers.start("vllm", "serve", "m")
    assert words[1:] == ["serve", "m", f"--host={HEAD}", "--port=8000"]
    words, _ = servers.start("sglang", "--model-path", "m")
    assert words[3:] == ["--model-path", "m", f"--host={HEAD}", "--port=30000"]


@pytest.mark.parametrize(
    ("argv", "named"),
    [
        (("vllm", "serve", "m", "--headless", "-r", "1"), "fullmesh-vllm was given --headless -r,"),
        (("vllm", "serve", "m", "--master_port=1"), "fullmesh-vllm was given --master_port=1,"),
        (("sglang", "--model-path", "m", "--nccl-init-addr=a:1"), "--nccl-init-addr=a:1,"),
    ],
)
def test_servers_refuse_options_that_the_plan_decides(
    servers: Node, capsys: pytest.CaptureFixture[str], argv: tuple[str, ...], named: str
) -> None:
    said = read_refusal(capsys, *argv)
    assert "[LA-180]" in said
    assert named in said


@pytest.mark.parametrize(
    "argv", [("vllm",), ("vllm", "chat", "m"), ("vllm", "serve"), ("sglang", "--tp=2")]
)
def test_a_server_without_a_model_is_refused(
    servers: Node, capsys: pytest.CaptureFixture[str], argv: tuple[str, ...]
) -> None:
    assert "[LA-104]" in read_refusal(capsys, *argv)


def test_a_second_server_is_refused_on_the_master(
    node: Node, capsys: pytest.CaptureFixture[str]
) -> None:
    node.be("127.0.0.1", "127.0.0.1")
    node.patch.setenv("FULLMESH_VLLM", sys.executable)
    with socket.create_server(("127.0.0.1", 0)) as other:
        taken = other.getsockname()[1]
        node.serve([{"name": "vllm", "ports": {"init": taken}}])
        said = read_refusal(capsys, "vllm", "serve", "m")
    assert f"[LA-119] Ports of the service are in use on this node: {taken} (init)" in said
    assert "end the server that runs already" in said
