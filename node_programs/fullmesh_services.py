# Copyright (c) the Fullmesh contributors
# SPDX-License-Identifier: MIT
"""Start services on the ports and addresses of the cluster plan, in addition to torch's jobs (Ray, JAX, vLLM, SGLang).

Runs on the nodes as ``/opt/fullmesh/lib/fullmesh_services.py COMMAND ...`` (standard library only). Every refusal has a
code. Each wait reports its reason and is limited.
"""

from __future__ import annotations

import errno
import json
import os
import shutil
import socket
import sys
import time
from typing import TYPE_CHECKING

from fullmesh_launch import (
    FOLDER,
    LaunchError,
    call_command,
    get_env_path,
    merge_env,
    read_node_env,
    run_launcher,
)
from fullmesh_sockets import format_endpoint

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from fullmesh.model.types import ServicePort

HEAD_SECONDS = 120  # a head needs half a minute on a busy machine
SAY_SECONDS = 10
TRY_SECONDS = 2.0
USAGE = "Usage: fullmesh-ray start|status|stop [options of ray's own command]"
VLLM_USAGE = "Usage: fullmesh-vllm serve MODEL [options of vLLM's own command]"
SGLANG_USAGE = "Usage: fullmesh-sglang --model-path MODEL [options of sglang.launch_server]"
END_SERVER = "end the server that runs already"
# Variables of torch's jobs. Ray's programs number their own ranks and would use these instead.
RANKS = ("MASTER_ADDR", "MASTER_PORT", "WORLD_SIZE", "NNODES", "NODE_RANK", "NPROC_PER_NODE")
# Without these, vLLM and SGLang take the address of the default route (docs.vllm.ai, Environment Variables;
# sglang/srt/utils/network.py), and vLLM offers its KV cache to its own node only (NIXL: "localhost").
OWN_ADDRESS = ("VLLM_HOST_IP", "VLLM_NIXL_SIDE_CHANNEL_HOST", "SGLANG_HOST_IP")
# Part of the preset -> ray's option. The worker's range has two.
RAY_EVERYWHERE = {
    "node-manager": "--node-manager-port",
    "object-manager": "--object-manager-port",
    "runtime-env-agent": "--runtime-env-agent-port",
    "agent-grpc": "--dashboard-agent-grpc-port",
    "agent-http": "--dashboard-agent-listen-port",
    "metrics": "--metrics-export-port",
}
RAY_HEAD = {"gcs": "--port", "dashboard": "--dashboard-port"}
# Refused by a Ray that was installed without [client] ("Ray Client requires pip package `ray[client]`", 2.60).
RAY_CLIENT = {"client": "--ray-client-server-port"}


# With these options a user would get a second head, or a node that the plan's firewall blocks.
RAY_PLANNED = (
    "--head",
    "--address",
    "--node-ip-address",
    "--min-worker-port",
    "--max-worker-port",
    *RAY_EVERYWHERE.values(),
    *RAY_HEAD.values(),
    *RAY_CLIENT.values(),
)
# vLLM's and SGLang's own options that the launcher fills in. vLLM reads "_" in an option as "-".
VLLM_PLANNED = (
    *("--nnodes", "-n", "--node-rank", "-r", "--master-addr", "--master-port", "--headless"),
    *("--port", "--data-parallel-address", "-dpa", "--data-parallel-rpc-port", "-dpp"),
)
SGLANG_PLANNED = ("--nnodes", "--node-rank", "--dist-init-addr", "--nccl-init-addr", "--port")


def refuse_planned_options(command: str, planned: Sequence[str], words: Sequence[str]) -> None:
    """Refuse options that the plan decides: the head's node, addresses, ports."""
    given = [word for word in words if word.partition("=")[0].replace("_", "-") in planned]
    if given:
        raise LaunchError(
            "[LA-180] {} was given {}, which the cluster plan decides: the head is on the node of "
            "rank 0, ports are those of fullmesh_services. "
            "Fix: leave it out, or change the plan and run site.yml.".format(
                command, " ".join(given)
            )
        )


def read_service_ports(name: str) -> dict[str, ServicePort]:
    """Return part -> ports of a service in the plan. The role launchers wrote them."""
    path = FOLDER + "/services.json"
    try:
        with open(path, encoding="utf-8") as stream:
            held: list[ServicePort] = json.load(stream)
    except (OSError, ValueError):
        raise LaunchError(
            f"[LA-102] {path} cannot be read. Fix: apply the role launchers to this node."
        ) from None
    found = {one["part"]: one for one in held if one["service"] == name}
    if not found:
        raise LaunchError(
            f"[LA-117] {name} is not among the services of the cluster plan, so its ports are closed. "
            f"Fix: add {name} to fullmesh_services and run site.yml (docs/services.md)."
        )
    return found


def find_tool(name: str, variable: str) -> str:
    """Return a program: from *variable*, from the running environment, or from the PATH."""
    program = os.path.join(os.path.dirname(sys.executable), name)
    found = os.environ.get(variable) or (
        program if os.access(program, os.X_OK) else shutil.which(name)
    )
    if not found:
        raise LaunchError(
            f"[LA-107] {name} is not installed on this node. Fix: install it into an environment of your own, the same "
            f"version on all nodes, and put its folder into PATH or the program into {variable}."
        )
    return found


def read_interpreter(tool: str) -> str:
    """Return the Python of a program that pip installed, or "" if its first line names none."""
    with open(tool, "rb") as stream:
        first = stream.readline(256).decode(errors="replace").strip()
    return first[2:].split()[0] if first.startswith("#!") and first[2:].strip() else ""


def build_service_env(env: Mapping[str, str]) -> dict[str, str]:
    """Return the environment of a service's processes, which its workers inherit."""
    own = {name: value for name, value in env.items() if name not in RANKS}
    for name in OWN_ADDRESS:
        own.setdefault(name, env["FULLMESH_ADDRESS"])
    return own


def build_ray_env(env: Mapping[str, str]) -> dict[str, str]:
    """Return the environment of Ray's processes, which its workers inherit."""
    own = build_service_env(env)
    # By default, Ray sends usage reports over the internet.
    own.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    return own


def build_head_options(tool: str) -> dict[str, str]:
    """Return part -> option of a head. Ray's client server needs the gRPC package."""
    python = read_interpreter(tool)
    client = not python or call_command([python, "-c", "import grpc"])[0] == 0
    return {**RAY_HEAD, **(RAY_CLIENT if client else {})}


def build_ray_start(
    ports: Mapping[str, ServicePort], address: str, master: str, options: Mapping[str, str]
) -> list[str]:
    """Return the command ``ray start`` for the node with *address*: a head on the master's, else a worker.

    *options* are those with a port: part -> option.
    """
    head = address == master
    words = ["start", f"--node-ip-address={address}"]
    if head:
        # Clients of the dashboard can run any code, so it only listens on the cluster's network.
        words += ["--head", f"--dashboard-host={address}"]
    else:
        words.append("--address=" + format_endpoint(master, ports["gcs"]["first"]))
    for part, option in options.items():
        words.append(f"{option}={ports[part]['first']}")
    workers = ports["workers"]
    return [*words, f"--min-worker-port={workers['first']}", f"--max-worker-port={workers['last']}"]


def refuse_taken_ports(
    ports: Mapping[str, ServicePort], address: str, parts: Iterable[str], step: str
) -> None:
    """Refuse to start if a port of *parts* is in use, for example by an older node or a second head.

    *step* tells the user how to end an older one.
    """
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    taken = []
    for part in parts:
        with socket.socket(family, socket.SOCK_STREAM) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind((address, ports[part]["first"]))
            except OSError as exc:
                if exc.errno != errno.EADDRINUSE:
                    raise LaunchError(
                        f"[LA-118] Cannot listen on {address} ({exc.strerror}). "
                        "Check: ip address. Fix: run site.yml."
                    ) from None
                taken.append(f"{ports[part]['first']} ({part})")
    if taken:
        raise LaunchError(
            "[LA-119] Ports of the service are in use on this node: {}. Fix: {}. "
            "Check: ss -ltnp".format(", ".join(taken), step)
        )


def wait_for_head(host: str, port: int, seconds: float) -> None:
    """Wait until the head answers. Report the reason while it does not."""
    ends, said = time.monotonic() + seconds, time.monotonic()
    while True:
        try:
            socket.create_connection((host, port), TRY_SECONDS).close()
        except OSError as exc:
            why = "no answer" if isinstance(exc, TimeoutError) else exc.strerror or str(exc)
        else:
            return
        now = time.monotonic()
        if now >= ends:
            break
        if now - said >= SAY_SECONDS:
            said = now
            sys.stderr.write(
                f"fullmesh-ray: waiting for the head at {format_endpoint(host, port)}: {why}\n"
            )
        time.sleep(0.5)
    raise LaunchError(
        f"[LA-120] No head of Ray at {format_endpoint(host, port)} after {seconds:.0f} s: {why}. "
        "Refused: start it on the master's node. No answer or unreachable: ./fullmesh diagnose finds the cause."
    )


def exec_ray(argv: Sequence[str]) -> None:
    """Run ``fullmesh-ray start|status|stop``: this node's part of a Ray cluster."""
    if not argv or argv[0] not in ("start", "status", "stop"):
        raise LaunchError(
            f"[LA-104] fullmesh-ray was asked for {' '.join(argv) or 'nothing'}. {USAGE}."
        )
    env = merge_env(read_node_env(get_env_path(os.environ)), os.environ)
    ports, tool = read_service_ports("ray"), find_tool("ray", "FULLMESH_RAY")
    address, master = env["FULLMESH_ADDRESS"], env["MASTER_ADDR"]
    words = [*argv]
    if argv[0] == "status":
        words = [*argv, "--address=" + format_endpoint(master, ports["gcs"]["first"])]
    if argv[0] == "start":
        refuse_planned_options("fullmesh-ray start", RAY_PLANNED, argv[1:])
        options = {**RAY_EVERYWHERE, **(build_head_options(tool) if address == master else {})}
        refuse_taken_ports(ports, address, options, "fullmesh-ray stop (ends an older Ray node)")
        if address != master:
            wait_for_head(master, ports["gcs"]["first"], HEAD_SECONDS)
        words = [*build_ray_start(ports, address, master, options), *argv[1:]]
    os.execve(tool, [tool, *words], build_ray_env(env))  # noqa: S606 (no shell between)


def exec_jax(argv: Sequence[str]) -> None:
    """Run ``fullmesh-jax SCRIPT``: one process of a JAX job on this node, with all of its devices."""
    if not argv:
        raise LaunchError("[LA-104] No script was given. Usage: fullmesh-jax SCRIPT [ARGUMENTS].")
    env = merge_env(read_node_env(get_env_path(os.environ)), os.environ)
    port = read_service_ports("jax")["coordinator"]["first"]
    env["JAX_COORDINATOR_ADDRESS"] = format_endpoint(env["MASTER_ADDR"], port)
    env["JAX_NUM_PROCESSES"], env["JAX_PROCESS_ID"] = env["NNODES"], env["NODE_RANK"]
    python = os.environ.get("FULLMESH_PYTHON") or sys.executable
    os.execve(python, [python, *argv], env)  # noqa: S606 (no shell between)


def has_option(words: Sequence[str], name: str) -> bool:
    """Return whether the user gave the option *name*, as two words or one."""
    return any(word.partition("=")[0] == name for word in words)


def build_listen_options(words: Sequence[str], address: str, port: int) -> list[str]:
    """Return the options of a server's API: the plan's port, and the cluster address if the user named no other."""
    host = [] if has_option(words, "--host") else [f"--host={address}"]
    return [*host, f"--port={port}"]


def build_vllm_options(
    ports: Mapping[str, ServicePort], env: Mapping[str, str], words: Sequence[str]
) -> list[str]:
    """Return vLLM's options for this node: the API on the master, workers alone (``--headless``) on the others."""
    address, master = env["FULLMESH_ADDRESS"], env["MASTER_ADDR"]
    found = []
    if int(env["NNODES"]) > 1:
        found = [
            *(f"--nnodes={env['NNODES']}", f"--node-rank={env['NODE_RANK']}"),
            *(f"--master-addr={master}", f"--master-port={ports['init']['first']}"),
            f"--data-parallel-rpc-port={ports['data-parallel']['first']}",
        ]
    if address != master:
        return [*found, "--headless"]
    return [*found, *build_listen_options(words, address, ports["api"]["first"])]


def exec_vllm(argv: Sequence[str]) -> None:
    """Run ``fullmesh-vllm serve MODEL``: this node's part of a vLLM server over all nodes, without Ray."""
    if len(argv) < 2 or argv[0] != "serve":  # noqa: PLR2004 (the command and the model)
        raise LaunchError(
            f"[LA-104] fullmesh-vllm was asked for {' '.join(argv) or 'nothing'}. {VLLM_USAGE}."
        )
    refuse_planned_options("fullmesh-vllm", VLLM_PLANNED, argv[1:])
    env = merge_env(read_node_env(get_env_path(os.environ)), os.environ)
    ports, tool = read_service_ports("vllm"), find_tool("vllm", "FULLMESH_VLLM")
    if env["FULLMESH_ADDRESS"] == env["MASTER_ADDR"]:
        refuse_taken_ports(ports, env["FULLMESH_ADDRESS"], ("api", "init"), END_SERVER)
    words = [tool, *argv, *build_vllm_options(ports, env, argv)]
    own = build_service_env(env)
    own.setdefault("VLLM_NIXL_SIDE_CHANNEL_PORT", str(ports["nixl"]["first"]))
    os.execve(tool, words, own)  # noqa: S606 (no shell between)


def exec_sglang(argv: Sequence[str]) -> None:
    """Run ``fullmesh-sglang --model-path MODEL``: this node's part of an SGLang server over all nodes."""
    if not has_option(argv, "--model-path") and not has_option(argv, "--model"):
        raise LaunchError(f"[LA-104] No model was given. {SGLANG_USAGE}.")
    refuse_planned_options("fullmesh-sglang", SGLANG_PLANNED, argv)
    env = merge_env(read_node_env(get_env_path(os.environ)), os.environ)
    ports, address, master = (
        read_service_ports("sglang"),
        env["FULLMESH_ADDRESS"],
        env["MASTER_ADDR"],
    )
    words = []
    if int(env["NNODES"]) > 1:
        words = [f"--nnodes={env['NNODES']}", f"--node-rank={env['NODE_RANK']}"]
        words += ["--dist-init-addr=" + format_endpoint(master, ports["init"]["first"])]
    if address == master:
        refuse_taken_ports(ports, address, ("api", "init"), END_SERVER)
    # every node answers for its health on this port
    words += build_listen_options(argv, address, ports["api"]["first"])
    own = build_service_env(env)
    # -m would import modules from the caller's folder first (Python 3.11 and newer obey this, also in child processes)
    own.setdefault("PYTHONSAFEPATH", "1")
    python = os.environ.get("FULLMESH_PYTHON") or sys.executable
    os.execve(python, [python, "-m", "sglang.launch_server", *argv, *words], own)  # noqa: S606 (no shell between)


COMMANDS = {"ray": exec_ray, "jax": exec_jax, "vllm": exec_vllm, "sglang": exec_sglang}


def main(argv: Sequence[str]) -> int:
    """Run a command. A refusal goes to stderr and exits with 2."""
    return run_launcher(COMMANDS[argv[0]], argv[1:])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
