# Copyright (c) the Fullmesh contributors
# SPDX-License-Identifier: MIT
"""Start a job on all nodes from this one with DeepSpeed's own launcher.

Sizes and addresses are those of the cluster plan.

Runs on the nodes as ``/opt/fullmesh/lib/fullmesh_deepspeed.py`` (standard library only). DeepSpeed starts its ranks
with pdsh over ssh (deepspeed/launcher/runner.py and multinode_runner.py, 0.19). By default it logs in without a
specific key, and uses the first address of ``hostname -I`` as the master's. It gives every node the caller's ``NCCL_*``
variables (also those that name this node's interface), but none of Gloo or torch.
"""

from __future__ import annotations

import os
import re
import shlex
import sys
from typing import TYPE_CHECKING

import fullmesh_launch as launch
from fullmesh_launch import BIN, LIBRARIES, NODES_OWN, run_launcher
from fullmesh_services import find_tool, read_interpreter

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from fullmesh.observed.watch import ParticipantNode as Node

TOOL = "fullmesh-deepspeed"
LOOK = "from importlib.metadata import version; print(version('deepspeed'))"
PDSH = "Fix: install your distribution's pdsh (EL: from EPEL), or start the script with fullmesh-torchrun on all nodes."
MISSING = (
    "Install it at the same place on all nodes, or name its program there in FULLMESH_DEEPSPEED."
)
DIFFERS = "Ranks of different versions cannot communicate: install one version on all."
# Files with further variables, in the home or the current folder (DeepSpeed's documentation, "Multi-node environment
# variables").
MORE, VARIABLE = ".deepspeed_env", "DS_ENV_FILE"


def read_deepspeed_env(path: str) -> dict[str, str]:
    """Return the variables in a DeepSpeed environment file: one per line, without quotes.

    Skip comments (DeepSpeed does not).
    """
    try:
        with open(path, encoding="utf-8") as stream:
            lines = [line.strip() for line in stream]
    except OSError:
        return {}
    pairs = [line.split("=", 1) for line in lines if "=" in line and not line.startswith("#")]
    return {name.strip(): value.strip() for name, value in pairs}


def escape_for_quotes(word: str) -> str:
    """Escape a word that DeepSpeed puts into double quotes, so that pdsh and the nodes' shells read it literally."""
    return re.sub(r"([\\$`])", r"\\\1", word).replace("%", "%%")


def quote_argument(word: str) -> str:
    """Quote an argument of the script. DeepSpeed itself only quotes arguments with a blank."""
    return escape_for_quotes(word) if " " in word else shlex.quote(word).replace("%", "%%")


def quote_variable(value: str) -> str:
    """Escape a variable's value for its file. DeepSpeed quotes values that are not plain words."""
    return escape_for_quotes(value).replace('"', '\\"')


def build_shared_env(own: Mapping[str, str], caller: Mapping[str, str]) -> dict[str, str]:
    """Return the variables for every node: the caller's settings for the plan and libraries, and the user's file.

    Each node adds the others from its own file (``fullmesh-rank``), including node-specific ones.
    """
    name = caller.get(VARIABLE) or MORE
    found = {
        name: quote_variable(caller[name])
        for name in caller
        if name in own or LIBRARIES.match(name)
    }
    for path in (os.path.join(os.path.expanduser("~"), name), name):
        found |= read_deepspeed_env(path)
    return {name: value for name, value in found.items() if name not in NODES_OWN}


def write_env_file(lines: Mapping[str, str]) -> str:
    """Write the lines to a file for DeepSpeed, without a name, so that it disappears with the process."""
    handle = os.memfd_create("deepspeed_env", 0)
    os.write(handle, "".join(f"{name}={lines[name]}\n" for name in sorted(lines)).encode())
    return f"/proc/{os.getpid()}/fd/{handle}"


def build_deepspeed_options(
    env: Mapping[str, str], nodes: Sequence[Node], whole: bool, options: Sequence[str]
) -> list[str]:
    """Return DeepSpeed's options: nodes, master, and the program that gives each rank its environment."""
    some = [] if whole else ["--include=" + "@".join(node["address"] for node in nodes)]
    master = env["MASTER_ADDR"] if whole else nodes[0]["address"]
    return [
        f"--hostfile={launch.FOLDER}/hostfile",
        "--launcher=pdsh",
        # it would log in with the caller's own key, and `exec_deepspeed` has checked all nodes with the cluster's
        "--no_ssh_check",
        f"--master_addr={master}",
        f"--master_port={env['MASTER_PORT']}",
        # one node of several may be a different one than this
        "--force_multi",
        "--no_local_rank",
        "--no_python",
        *some,
        *options,
    ]


def exec_deepspeed(words: Sequence[str]) -> None:
    """Replace this process by ``deepspeed``."""
    options, script = launch.split_options(words)
    tool = find_tool("deepspeed", "FULLMESH_DEEPSPEED")
    python = read_interpreter(tool) or sys.executable
    launch.find_program("pdsh", PDSH)
    launch.refuse_wrong_account(launch.read_ssh_user(), words, TOOL)
    named, rest = launch.take_nodes_option(options)
    who, own = launch.read_nodes_file(), launch.read_node_env(launch.get_env_path(os.environ))
    nodes = launch.select_nodes(who, named)
    launch.refuse_unfit_nodes(
        launch.run_on_nodes(nodes, [python, "-c", LOOK]), f"DeepSpeed ({python})", MISSING, DIFFERS
    )
    lines = build_shared_env(own, os.environ)
    if named:
        lines["FULLMESH_NODES"] = ",".join(node["name"] for node in nodes)
    env = {name: value for name, value in os.environ.items() if name not in NODES_OWN}
    more = f"{env.get('PDSH_SSH_ARGS_APPEND', '')} -F {launch.FOLDER}/ssh/config".strip()
    env.update({"PDSH_SSH_ARGS_APPEND": more, VARIABLE: write_env_file(lines)})
    # this environment's Python may be a different one than torch's, whose programs start a script otherwise
    job = [python, "-u", *script] if script[0].endswith(".py") else script
    argv = [tool, *build_deepspeed_options(own, nodes, not named, rest), BIN + "/fullmesh-rank"]
    argv += [quote_argument(word) for word in job]
    os.execve(tool, argv, env)  # noqa: S606 (no shell between)


def main(argv: Sequence[str]) -> int:
    """Start a job. A refusal goes to stderr and exits with 2."""
    return run_launcher(exec_deepspeed, argv)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
