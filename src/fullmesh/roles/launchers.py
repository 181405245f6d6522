"""Check the settings of the launchers and render their files."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any

from fullmesh.faults import Fault
from fullmesh.foreign_text import parse_decimal
from fullmesh.model.participants import build_job_members
from fullmesh.model.types import ClusterPlan
from fullmesh.settings import ROOT

CODES: dict[str, str] = {
    "LA-101": "A setting of the launchers cannot work",
    "LA-102": "The node has no environment file",
    "LA-103": "The node has no torchrun",
    "LA-104": "The launcher was called without a script or with an incomplete option",
    "LA-105": "The rendezvous on the launcher's command line is unknown",
    "LA-106": "The launcher's watch time is not a number of seconds",
    "LA-107": "A launcher's software is not installed",
    "LA-108": "No etcd answers",
    "LA-109": "An etcd lacks the interface that torch uses",
    "LA-110": "The nodes cannot log in to each other for mpirun or DeepSpeed",
    "LA-111": "No Slurm answers",
    "LA-112": "The number of processes differs from the cluster plan",
    "LA-113": "A node is not among the nodes of the plan or of the job",
    "LA-114": "An account without the cluster's key started mpirun or DeepSpeed",
    "LA-115": "The nodes have different versions of Open MPI or DeepSpeed",
    "LA-116": "No account is set to run the systemd jobs",
    "LA-117": "A launcher's service is not in the cluster plan",
    "LA-118": "A service cannot listen on the cluster address",
    "LA-119": "Ports of a service are in use on the node",
    "LA-120": "No head of Ray answers",
    "LA-121": "Nodes have different numbers of ranks, which accelerate cannot start",
    "LA-122": "A container was requested with its own network",
    "LA-123": "Containers cannot use the GPUs",
    "LA-124": "The node is not fit for jobs, or could not be checked",
    "LA-125": "No folder for temporary files can be written to",
    "LA-180": "The cluster plan decides an option of Ray, vLLM or SGLang that the command sets, such as a second head",
}

# useradd's own rule, so that nothing else gets into the unit file.
USER = re.compile(r"[a-z_][a-z0-9_-]{0,30}\$?")
LONGEST = 7 * 24 * 3600
HEAD = "# Ansible managed (Fullmesh, role launchers)"
# -B: undo would leave Python's cache files behind. -E -s: root imports nothing from the caller's environment. -I would
# also exclude the program's own folder, which holds its other modules.
ISOLATED = "-B -E -s"
# Commands of node_programs/fullmesh_launch.py that users start.
RUN = ("mpirun", "sbatch", "srun")
# The same, started by mpirun, sbatch or srun.
INNER = ("orted", "rank")
# The same of node_programs/fullmesh_services.py.
SERVE = ("jax", "ray", "sglang", "vllm")
# Commands with their own program.
OWN = ("accelerate", "deepspeed")
# Before a launcher starts, if the user asks for it.
CHECK = """\
[ "${{FULLMESH_CHECK:-0}}" = 0 ] || {folder}/fullmesh-check node links >&2 || {{
    echo "[LA-124] This node is not ready for a job. Fix: the line above, or unset FULLMESH_CHECK." >&2
    exit 2
}}
"""
# The tools of node_programs/fullmesh_container.py.
CONTAIN = ("docker", "podman")


def render_hostfile(plan: ClusterPlan) -> str:
    """Render Open MPI's host file: every node's cluster address, with a slot for each of its ranks."""
    lines = [f"{node['address']} slots={node['local_ranks']}" for node in plan["nodes"].values()]
    return "\n".join([HEAD, *lines]) + "\n"


def build_command_files(folder: str, library: str, venv: str) -> list[dict[str, str]]:
    """Build the small commands, as write_files takes them.

    Args:
        folder: the folder of the commands.
        library: the folder of the code that they run.
        venv: the environment that runs it.
    """
    python = f"{venv}/bin/python {ISOLATED}"
    run = {
        f"fullmesh-{name}": f'{python} {library}/fullmesh_launch.py {name} "$@"'
        for name in (*RUN, *INNER)
    }
    run |= {
        f"fullmesh-{name}": f'{python} {library}/fullmesh_services.py {name} "$@"' for name in SERVE
    }
    run |= {f"fullmesh-{name}": f'{python} {library}/fullmesh_{name}.py "$@"' for name in OWN}
    run |= {
        f"fullmesh-{name}": f'{python} {library}/fullmesh_container.py {name} "$@"'
        for name in CONTAIN
    }
    run["fullmesh-launch"] = f'{folder}/fullmesh-torchrun --launch "$@"'
    run["fullmesh-hang"] = f'{python} {library}/fullmesh_hang.py "$@"'
    # without the environment: it may be on a file system that hangs
    check = f"/usr/bin/python3 {ISOLATED} -S {library}/fullmesh_check.py"
    run["fullmesh-check"] = f'{check} --python {venv}/bin/python "$@"'
    run["fullmesh-ssh"] = 'ssh -F /etc/fullmesh/ssh/config "$@"'
    check = CHECK.format(folder=folder)
    checked = {f"fullmesh-{name}" for name in (*RUN, *SERVE, *OWN, *CONTAIN)}
    return [
        {
            "path": f"{folder}/{name}",
            "content": f"#!/bin/sh\n{HEAD}\n{check if name in checked else ''}exec {line}\n",
            "mode": "0755",
        }
        for name, line in sorted(run.items())
    ]


def render_nodes_file(plan: ClusterPlan) -> str:
    """Render the participants of a job as a file."""
    return json.dumps(build_job_members(plan), indent=1) + "\n"


def render_services_file(plan: ClusterPlan) -> str:
    """Render the ports of the services on the nodes as a file, for the launchers."""
    return json.dumps(plan.get("services", []), indent=1) + "\n"


def build_program_file(name: str, path: str) -> dict[str, str]:
    """Return one of the node programs, as write_files takes it."""
    text = (ROOT / "node_programs" / f"{name}.py").read_text(encoding="utf-8")
    return {"path": path, "content": text}


def build_library_files(modules: Sequence[str], folder: str) -> list[dict[str, str]]:
    """Return the files of the watch and of `fullmesh-hang`."""
    return [build_program_file(name, f"{folder}/{name}.py") for name in modules]


def build_hook_files(folder: str) -> list[dict[str, str]]:
    """Return the hook that lets Fullmesh query ranks. Python imports a module of this name at its start (site)."""
    return [build_program_file("fullmesh_hook", f"{folder}/sitecustomize.py")]


def find_launcher_faults(
    job_user: object, join_timeout_seconds: Any, stop_timeout_seconds: Any, watch_seconds: Any = 60
) -> list[Fault]:
    """Return a fault for every setting that cannot work."""
    found = []
    user = str(job_user)
    if user and not USER.fullmatch(user):
        text = f"launchers_job_user is {user!r}, which is not a user name"
        found.append(Fault("LA-101", text, "Write it like train, or leave it empty"))
    named = {
        "launchers_join_timeout_seconds": join_timeout_seconds,
        "launchers_stop_timeout_seconds": stop_timeout_seconds,
    }
    for name, value in named.items():
        if not parse_decimal(str(value), LONGEST):
            text = f"{name} is {value!r}, which is not a number of seconds from 1 to {LONGEST}"
            found.append(Fault("LA-101", text, "Write it like 300"))
    if parse_decimal(str(watch_seconds), LONGEST) is None:
        text = f"launchers_watch_seconds is {watch_seconds!r}, which is not a number of seconds from 0 to {LONGEST}"
        found.append(Fault("LA-101", text, "Write it like 60, or 0 to switch the watch off"))
    return found
