"""fullmesh-podman and fullmesh-docker: the options of a container, and rejected ones."""

from __future__ import annotations

import json
import os
import resource
import stat
from pathlib import Path

import fullmesh_container as container
import fullmesh_start_program as start_program
import pytest
from fullmesh_launch import HOOK

from fullmesh.roles import launchers

ENV = """MASTER_ADDR=10.78.0.11
MASTER_PORT=29500
WORLD_SIZE=4
NNODES=2
NODE_RANK=1
NPROC_PER_NODE=2
FULLMESH_ADDRESS=10.78.0.12
GLOO_SOCKET_IFNAME=eth1
"""
NOWHERE = "/nowhere/[0-9]*"


class Started(Exception):  # noqa: N818 (what execv would have become)
    """A program takes the place of this one."""


@pytest.fixture
def node(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A node without GPUs and RDMA, and both tools."""

    def become(path: str, words: list[str]) -> None:
        raise Started(json.dumps([path, words]))

    monkeypatch.setattr(os, "execv", become)
    (tmp_path / "env").write_text(ENV)
    monkeypatch.setenv("FULLMESH_ENV", str(tmp_path / "env"))
    for tool in container.TOOLS:
        monkeypatch.setenv("FULLMESH_" + tool.upper(), f"/usr/bin/{tool}")
    monkeypatch.delenv("FULLMESH_HANG", raising=False)
    for name in ("NVIDIA", "AMD", "RDMA"):
        monkeypatch.setattr(container, name, NOWHERE)
    monkeypatch.setattr(start_program, "DEVICES", [])
    monkeypatch.setattr(container, "CDI", (str(tmp_path / "cdi"),))
    monkeypatch.setattr(container, "can_raise_limits", lambda: True)
    return tmp_path


def start_container(tool: str, *argv: str) -> list[str]:
    with pytest.raises(Started) as ran:
        container.main([tool, *argv])
    path, words = json.loads(str(ran.value))
    assert path == words[0] == f"/usr/bin/{tool}"
    return [str(one) for one in words]


def parse_options(words: list[str]) -> dict[str, str]:
    told = [word.removeprefix("--env=") for word in words if word.startswith("--env=")]
    return dict(one.split("=", 1) for one in told)


def test_it_gets_the_hosts_network_and_the_plan(
    node: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NCCL_DEBUG", "INFO")
    monkeypatch.setenv("GLOO_SOCKET_IFNAME", "eth0")
    monkeypatch.setenv("SECRET_TOKEN", "not for it")
    words = start_container(
        "podman", "-v", "/data:/data", "image:1", "torchrun", "train.py", "--net", "resnet"
    )
    assert words[1:5] == ["run", "--rm", "--network=host", "--ipc=host"]
    assert words[-7:] == ["-v", "/data:/data", "image:1", "torchrun", "train.py", "--net", "resnet"]
    env = parse_options(words)
    assert env.items() >= {
        ("PET_NNODES", "2"),
        ("PET_NPROC_PER_NODE", "2"),
        ("PET_NODE_RANK", "1"),
        ("PET_MASTER_ADDR", "10.78.0.11"),
        ("PET_MASTER_PORT", "29500"),
        ("PET_LOCAL_ADDR", "10.78.0.12"),
        ("GLOO_SOCKET_IFNAME", "eth1"),
        ("NCCL_DEBUG", "INFO"),
    }
    assert "SECRET_TOKEN" not in env
    assert "--ulimit=memlock=-1:-1" in words
    assert not [word for word in words if "device" in word or "gpus" in word]


def test_limits_are_those_the_caller_may_set(monkeypatch: pytest.MonkeyPatch) -> None:
    def hard(kind: int) -> tuple[int, int]:
        return {resource.RLIMIT_MEMLOCK: (1, 8 << 20), resource.RLIMIT_NOFILE: (1024, 4096)}.get(
            kind, (8 << 20, resource.RLIM_INFINITY)
        )

    monkeypatch.setattr(resource, "getrlimit", hard)
    monkeypatch.setattr(container, "can_raise_limits", lambda: False)
    assert container.list_ulimits() == [
        f"--ulimit=memlock={8 << 20}:{8 << 20}",
        "--ulimit=nofile=4096:4096",
        "--ulimit=nproc=-1:-1",
        f"--ulimit=stack={64 << 20}:{64 << 20}",
    ]
    monkeypatch.setattr(container, "can_raise_limits", lambda: True)
    assert container.list_ulimits()[0] == "--ulimit=memlock=-1:-1"


def test_a_process_knows_whether_it_may_raise_them() -> None:
    held = next(
        line for line in Path("/proc/self/status").read_text().splitlines() if "CapEff" in line
    )
    assert container.can_raise_limits() == bool(int(held.split()[1], 16) & 1 << 24)


def test_rdma_and_amds_gpus_come_along(node: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AMD", "RDMA"):
        place = node / name
        place.mkdir()
        monkeypatch.setattr(container, name, str(place))
    words = start_container("docker", "image", "torchrun", "train.py")
    assert f"--device={node}/AMD" in words
    assert f"--device={node}/RDMA" in words


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can make device files")
def test_an_image_gets_the_groups_of_device_files_by_number(
    node: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def list_groups(tool: str, *argv: str) -> list[str]:
        return [one for one in start_container(tool, *argv, "image") if "--group-add" in one]

    modes = {"kfd": (0o660, 105), "renderD128": (0o660, 105), "renderD129": (0o660, 44)}
    modes |= {"uverbs0": (0o666, 7), "uverbs1": (0o600, 8), "uverbs2": (0o660, 0)}
    for name, (mode, group) in modes.items():
        os.mknod(node / name, stat.S_IFCHR, os.makedev(1, 3))
        (node / name).chmod(mode)
        os.chown(node / name, 0, group)
    patterns = [str(node / name) for name in ("kfd", "renderD*", "uverbs*")]
    monkeypatch.setattr(start_program, "DEVICES", patterns)
    for tool in container.TOOLS:
        assert list_groups(tool) == ["--group-add=44", "--group-add=105"]
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert list_groups("docker") == ["--group-add=44", "--group-add=105"]
    assert list_groups("podman") == ["--group-add=keep-groups"]
    assert list_groups("podman", "--group-add", "9") == ["--group-add"]
    for name in modes:
        (node / name).chmod(0o666)
    assert list_groups("podman") == []


def test_nvidias_gpus_come_as_the_node_describes_them(
    node: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (node / "nvidia0").touch()
    monkeypatch.setattr(container, "NVIDIA", str(node / "nvidia[0-9]*"))
    monkeypatch.setenv("PATH", str(node))
    for tool, step in (("podman", "nvidia-ctk cdi generate"), ("docker", "--runtime=docker")):
        assert container.main([tool, "image"]) == 2
        said = capsys.readouterr().err
        assert "[LA-123]" in said
        assert step in said
    (node / "cdi").mkdir()
    (node / "cdi/other.json").write_text('{"kind": "vendor.com/nic"}')
    assert not container.has_cdi()
    (node / "cdi/nvidia.yaml").write_text("cdiVersion: 0.5.0\nkind: nvidia.com/gpu\n")
    assert "--device=nvidia.com/gpu=all" in start_container("podman", "image")
    hook = node / container.DOCKER_HOOK
    hook.write_text("#!/bin/sh\n")
    hook.chmod(0o755)
    assert "--gpus=all" in start_container("docker", "image")


@pytest.mark.parametrize(
    ("argv", "code"),
    [
        ([], "LA-104"),
        (["--network", "bridge", "image"], "LA-122"),
        (["-it", "--rm", "--name", "x", "--net=site", "image"], "LA-122"),
    ],
)
def test_a_call_that_cannot_work_is_refused(
    node: Path, capsys: pytest.CaptureFixture[str], argv: list[str], code: str
) -> None:
    assert container.main(["podman", *argv]) == 2
    assert f"[{code}]" in capsys.readouterr().err
    assert code in launchers.CODES


@pytest.mark.parametrize(
    "argv",
    [
        ["--network=host", "image"],
        ["-it", "image", "python", "--network", "bridge"],
        ["--read-only", "--cap-add", "SYS_NICE", "image", "--net=x"],
        ["--", "image"],
    ],
)
def test_arguments_after_the_image_belong_to_the_image(node: Path, argv: list[str]) -> None:
    assert start_container("podman", *argv)[-len(argv) :] == argv


def test_the_hook_is_installed_on_request(node: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "PYTHONPATH" not in parse_options(start_container("podman", "image"))
    monkeypatch.setenv("FULLMESH_HANG", "1")
    words = start_container("podman", "image")
    assert parse_options(words)["PYTHONPATH"] == HOOK
    assert f"--volume={HOOK}:{HOOK}:ro" in words


def test_a_missing_tool_is_reported(
    node: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("FULLMESH_DOCKER")
    monkeypatch.setenv("PATH", str(node))
    assert container.main(["docker", "image"]) == 2
    assert "[LA-107] docker is not installed" in capsys.readouterr().err
