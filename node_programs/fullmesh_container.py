# Copyright (c) the Fullmesh contributors
# SPDX-License-Identifier: MIT
"""Run a container image as this node's share of a job, with the host's network, the plan's variables, GPUs and RDMA.

Runs on the nodes as ``/opt/fullmesh/lib/fullmesh_container.py podman|docker ...`` (standard library only). torchrun in
the image needs no options: it reads sizes, ranks and addresses from its own variables (``PET_*``,
torch/distributed/run.py).
"""

from __future__ import annotations

import glob
import os
import resource
import shutil
import sys
from typing import TYPE_CHECKING

from fullmesh_launch import (
    HOOK,
    LIBRARIES,
    NODES_OWN,
    LaunchError,
    get_env_path,
    merge_env,
    read_node_env,
    run_launcher,
)
from fullmesh_start_program import find_device_groups

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

TOOLS = ("podman", "docker")
# torchrun's variable -> the plan's
PET = {
    "PET_NNODES": "NNODES",
    "PET_NPROC_PER_NODE": "NPROC_PER_NODE",
    "PET_NODE_RANK": "NODE_RANK",
    "PET_MASTER_ADDR": "MASTER_ADDR",
    "PET_MASTER_PORT": "MASTER_PORT",
    "PET_LOCAL_ADDR": "FULLMESH_ADDRESS",
}
NVIDIA, AMD, RDMA = "/dev/nvidia[0-9]*", "/dev/kfd", "/dev/infiniband"
CDI = ("/etc/cdi", "/var/run/cdi")
CDI_KIND = b"nvidia.com/gpu"
# The program that docker needs for containers with a GPU (NVIDIA Container Toolkit, its architecture overview).
DOCKER_HOOK = "nvidia-container-runtime-hook"
CAP_SYS_RESOURCE = 24  # linux/capability.h
STACK = (
    64 << 20
)  # NVIDIA's own containers recommend it: "--ulimit memlock=-1 --ulimit stack=67108864"
NETWORK = ("--network", "--net")
# Options of podman run and docker run that take no value (their manual pages): all others do.
FLAGS = frozenset(
    [
        *("--detach", "--disable-content-trust", "--env-host", "--help", "--http-proxy", "--init"),
        *("--interactive", "--no-healthcheck", "--no-hosts", "--oom-kill-disable", "--passwd"),
        *(
            "--privileged",
            "--publish-all",
            "--quiet",
            "--read-only",
            "--read-only-tmpfs",
            "--replace",
        ),
        *("--rm", "--rmi", "--sig-proxy", "--tls-verify", "--tty", "--use-api-socket"),
    ]
)
SHORT_FLAGS = frozenset("dithPq")


def parse_run_options(argv: Sequence[str]) -> list[tuple[str, str]]:
    """Return the options before the image, with their values. Later words belong to the program."""
    found, words = [], list(argv)
    while words and words[0].startswith("-") and words[0] != "--":
        name, equals, value = words.pop(0).partition("=")
        alone = name in FLAGS or (not name.startswith("--") and set(name[1:]) <= SHORT_FLAGS)
        if not equals and not alone and words:
            value = words.pop(0)
        found.append((name, value))
    return found


def find_foreign_network(argv: Sequence[str]) -> str:
    """Return the network that the caller requested, if it is not the host's."""
    asked = [value for name, value in parse_run_options(argv) if name in NETWORK]
    return next((one for one in asked if one != "host"), "")


def can_raise_limits() -> bool:
    """Return whether this process may exceed its hard limits."""
    try:
        with open("/proc/self/status", encoding="ascii") as stream:
            held = next(line.split()[1] for line in stream if line.startswith("CapEff:"))
    except (OSError, StopIteration):
        return False
    return bool(int(held, 16) >> CAP_SYS_RESOURCE & 1)


def format_ulimit(name: str, kind: int, wanted: int) -> str:
    """Format ``--ulimit`` for one limit: the wanted value, or the highest that this process may set."""
    hard = resource.getrlimit(kind)[1]
    most = wanted
    if not can_raise_limits() and hard != resource.RLIM_INFINITY:
        most = hard if wanted == resource.RLIM_INFINITY else min(hard, wanted)
    return f"--ulimit={name}={most}:{most}"


def list_ulimits() -> list[str]:
    """Return the limits of locked memory (RDMA, pinned buffers), files, processes, stack."""
    return [
        format_ulimit("memlock", resource.RLIMIT_MEMLOCK, resource.RLIM_INFINITY),
        format_ulimit(
            "nofile", resource.RLIMIT_NOFILE, resource.getrlimit(resource.RLIMIT_NOFILE)[1]
        ),
        # if only the other limit is given, podman requests 4194304, which not every root may have
        format_ulimit("nproc", resource.RLIMIT_NPROC, resource.getrlimit(resource.RLIMIT_NPROC)[1]),
        format_ulimit("stack", resource.RLIMIT_STACK, STACK),
    ]


def has_cdi() -> bool:
    """Return whether the node describes its NVIDIA GPUs for containers (Container Device Interface)."""
    for path in (one for folder in CDI for one in glob.glob(folder + "/*")):
        try:
            with open(path, "rb") as stream:
                if CDI_KIND in stream.read(1 << 20):
                    return True
        except OSError:
            continue
    return False


def find_group_options(tool: str, argv: Sequence[str]) -> list[str]:
    """Return the options that keep device files open to an image's account.

    Groups have numbers, because names would be those of the image, in which ``render`` has another number or none. A
    podman that root does not run maps numbers, and can only keep the caller's groups, if the caller adds no other.
    """
    groups = find_device_groups()[0]
    if tool == "podman" and os.geteuid() != 0:
        added = any(name == "--group-add" for name, _ in parse_run_options(argv))
        return ["--group-add=keep-groups"] if groups and not added else []
    return [f"--group-add={number}" for number in groups]


def find_device_options(tool: str) -> list[str]:
    """Return the options for the node's GPUs and RDMA interfaces.

    Raises:
        LaunchError: LA-123, there are GPUs that containers cannot use.
    """
    found = [f"--device={RDMA}"] if os.path.isdir(RDMA) else []
    if os.path.exists(AMD):
        found += [f"--device={AMD}", "--device=/dev/dri"]
    if glob.glob(NVIDIA):
        if tool == "podman" and has_cdi():
            found.append("--device=nvidia.com/gpu=all")
        elif tool == "docker" and shutil.which(DOCKER_HOOK):
            found.append("--gpus=all")
        else:
            step = "nvidia-ctk cdi generate --output=/etc/cdi/nvidia.yaml, as root"
            if tool == "docker":
                step = "nvidia-ctk runtime configure --runtime=docker; systemctl restart docker, as root"
            raise LaunchError(
                f"[LA-123] This node has NVIDIA GPUs, but {tool} cannot give them to a container. "
                "Fix: set container_toolkit_manage: true, or install NVIDIA's container toolkit "
                f"(nvidia-container-toolkit), then: {step}"
            )
    return found


def build_container_env(own: Mapping[str, str], caller: Mapping[str, str]) -> dict[str, str]:
    """Return the container's environment: the node's file, the caller's library settings, torchrun's variables."""
    env = merge_env(own, caller)
    passed = {name for name in caller if LIBRARIES.match(name) and name not in NODES_OWN}
    found = {name: env[name] for name in sorted(passed | set(own))}
    found.update({name: found[of] for name, of in PET.items()})
    return found


def build_run_command(tool: str, env: Mapping[str, str], argv: Sequence[str]) -> list[str]:
    """Return the arguments of ``podman`` or ``docker``. The caller's come last and take precedence."""
    words = [
        "run",
        "--rm",
        "--network=host",
        "--ipc=host",
        *list_ulimits(),
        *find_device_options(tool),
        *find_group_options(tool, argv),
    ]
    words += [f"--env={name}={value}" for name, value in env.items()]
    return [*words, *argv]


def exec_container(tool: str, argv: Sequence[str]) -> None:
    """Replace this process by the container's program.

    Raises:
        LaunchError: LA-122, a separate network was requested.
    """
    if not argv:
        raise LaunchError(
            f"[LA-104] No image was given. Usage: fullmesh-{tool} [options of {tool} run] IMAGE COMMAND [ARGUMENTS]"
        )
    network = find_foreign_network(argv)
    if network:
        raise LaunchError(
            f"[LA-122] network {network}: peers cannot reach ranks in it, and the node's port range does not apply "
            "there. Fix: leave the option out, so that ranks use the host's network."
        )
    env = build_container_env(read_node_env(get_env_path(os.environ)), os.environ)
    more: list[str] = []
    if os.environ.get("FULLMESH_HANG") == "1":
        more, env["PYTHONPATH"] = [f"--volume={HOOK}:{HOOK}:ro"], HOOK
    path = os.environ.get("FULLMESH_" + tool.upper()) or shutil.which(tool)
    if not path:
        raise LaunchError(
            f"[LA-107] {tool} is not installed on this node. Fix: install the distribution's package."
        )
    os.execv(path, [path, *build_run_command(tool, env, [*more, *argv])])  # noqa: S606 (no shell between)


def main(argv: Sequence[str]) -> int:
    """Run an image. A refusal goes to stderr and exits with 2."""
    return run_launcher(exec_container, argv[0], argv[1:])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
