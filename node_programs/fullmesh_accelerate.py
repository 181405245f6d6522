# Copyright (c) the Fullmesh contributors
# SPDX-License-Identifier: MIT
"""Start this node's part of a job with Hugging Face's Accelerate.

Sizes, ranks and addresses are those of the cluster plan.

Runs on the nodes as ``/opt/fullmesh/lib/fullmesh_accelerate.py`` (standard library only). Accelerate's launcher is
torchrun's code with its own options (accelerate/commands/launch.py, ``multi_gpu_launcher``). It can start ranks without
a GPU, and reads torchrun's variables (``PET_*``) for settings without an option.
"""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

from fullmesh_launch import (
    HOOK,
    LaunchError,
    call_command,
    get_env_path,
    get_last_line,
    merge_env,
    read_node_env,
    run_launcher,
)
from fullmesh_services import find_tool, read_interpreter

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

STATIC, C10D = "static", "c10d"
JOIN_SECONDS = "600"  # torchrun's own default of join_timeout
TORCH_SECONDS = 60  # an import of torch on a busy machine
CPU = "ACCELERATE_USE_CPU"
LOOK = "import torch; print(torch.cuda.is_available() or torch.accelerator.is_available())"
USAGE = "Usage: fullmesh-accelerate [--static|--c10d] [options of accelerate launch] SCRIPT [ARGUMENTS], or: config"


def split_mode(words: Sequence[str]) -> tuple[str, list[str]]:
    """Split off the rendezvous mode. The rest is for Accelerate."""
    if words and words[0] in ("--" + STATIC, "--" + C10D):
        return words[0][2:], list(words[1:])
    return STATIC, list(words)


def build_accelerate_settings(env: Mapping[str, str], mode: str) -> dict[str, str]:
    """Return Accelerate's settings, by the names that its configuration file and options share.

    Raises:
        LaunchError: LA-121, the nodes have different numbers of ranks, but Accelerate divides them evenly.
    """
    world, nodes, here = (int(env[name]) for name in ("WORLD_SIZE", "NNODES", "NPROC_PER_NODE"))
    if world != nodes * here:
        raise LaunchError(
            f"[LA-121] The plan has {world} ranks on {nodes} nodes and {here} on this one, but accelerate "
            "needs equal numbers. Fix: give all nodes the same fullmesh_local_ranks, or use fullmesh-torchrun."
        )
    address, port = env["MASTER_ADDR"], env["MASTER_PORT"]
    if mode == C10D:
        address, _, port = env["FULLMESH_RENDEZVOUS"].rpartition(":")
    found = {
        "num_machines": env["NNODES"],
        "num_processes": env["WORLD_SIZE"],
        "machine_rank": env["NODE_RANK"],
        "main_process_ip": address,
        "main_process_port": port,
        "rdzv_backend": mode,
    }
    if mode == C10D:
        # Otherwise the host of the endpoint's address is found by its host name (elastic/rendezvous/utils.py).
        host = int(env["FULLMESH_ADDRESS"] == env["MASTER_ADDR"])
        join = env.get("FULLMESH_JOIN_TIMEOUT") or JOIN_SECONDS
        found["rdzv_conf"] = f"is_host={host},join_timeout={join}"
    return found


def render_accelerate_config(env: Mapping[str, str]) -> str:
    """Render the settings as Accelerate's configuration file, for ``accelerate launch --config_file``."""
    # MULTI_GPU is Accelerate's name for torchrun's launcher, same_network selects a master instead of a rendezvous.
    fixed = {
        "compute_environment": "LOCAL_MACHINE",
        "distributed_type": "MULTI_GPU",
        "same_network": "true",
    }
    held = {**fixed, **build_accelerate_settings(env, STATIC)}
    return "".join(f"{name}: {value}\n" for name, value in held.items())


def has_no_gpu(tool: str) -> bool:
    """Return whether the torch of *tool*'s environment has no device but the CPU.

    Raises:
        LaunchError: LA-107, torch does not answer.
    """
    code, said = call_command([read_interpreter(tool) or sys.executable, "-c", LOOK], TORCH_SECONDS)
    if code:
        raise LaunchError(
            f"[LA-107] torch in the environment of {tool} cannot report its devices: {get_last_line(said)}. "
            f"Fix: install torch there, install accelerate in torch's environment, or set {CPU}=true or false."
        )
    return get_last_line(said) == "False"


def build_accelerate_env(own: Mapping[str, str], tool: str) -> dict[str, str]:
    """Return a job's environment, with the device for ranks and the address that torchrun announces."""
    env = dict(own)
    # Without a GPU and without this variable, each rank is a world of its own, and all of them train without an error
    # (accelerate 1.15, tried).
    if CPU not in env and has_no_gpu(tool):
        env[CPU] = "true"
    # It would announce the host name, which can be another network (pytorch#69345).
    env["PET_LOCAL_ADDR"] = env["FULLMESH_ADDRESS"]
    if env.get("FULLMESH_HANG") != "0":
        env["PYTHONPATH"] = os.pathsep.join(filter(None, [HOOK, env.get("PYTHONPATH", "")]))
    return env


def exec_accelerate(words: Sequence[str]) -> None:
    """Replace this process by ``accelerate launch``."""
    mode, rest = split_mode(words)
    if not rest:
        raise LaunchError(f"[LA-104] No script was given. {USAGE}.")
    env = merge_env(read_node_env(get_env_path(os.environ)), os.environ)
    if rest == ["config"]:
        sys.stdout.write(render_accelerate_config(env))
        return
    tool = find_tool("accelerate", "FULLMESH_ACCELERATE")
    options = [
        part
        for name, value in build_accelerate_settings(env, mode).items()
        for part in ("--" + name, value)
    ]
    same = ["--same_network"] if mode == STATIC else []
    argv = [tool, "launch", "--multi_gpu", *options, *same, *rest]
    os.execve(tool, argv, build_accelerate_env(env, tool))  # noqa: S606 (no shell between)


def main(argv: Sequence[str]) -> int:
    """Start a job. A refusal goes to stderr and exits with 2."""
    return run_launcher(exec_accelerate, argv)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
