"""Start a job on all nodes of an inventory from the controller: one ssh per node, with the watch at its other end."""

from __future__ import annotations

import base64
import json
import queue
import shlex
import subprocess
import threading
import time
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import IO, Any, TypedDict

from fullmesh.contract import convert_value
from fullmesh.foreign_text import parse_foreign_json
from fullmesh.model.participants import build_job_members
from fullmesh.model.types import ClusterPlan
from fullmesh.observed.watch import JobProblem, WatchEvent
from fullmesh.printed import clean_and_shorten
from fullmesh.settings import ROOT

MODULES = (
    "fullmesh_foreign_text",
    "fullmesh_ports",
    "fullmesh_sockets",
    "fullmesh_watch_look",
    "fullmesh_watch_judge",
    "fullmesh_watch_services",
    "fullmesh_hang_border",
    "fullmesh_hang_calls",
    "fullmesh_hang_wait",
    "fullmesh_hang_evidence",
    "fullmesh_hang_answer",
    "fullmesh_hang_ras",
    "fullmesh_hook",
    "fullmesh_nic_counters",
    "fullmesh_hang_rdma",
    "fullmesh_hang_look",
    "fullmesh_hang",
    "fullmesh_watch_stall",
    "fullmesh_watch",
)
# The order matters: a module finds those before it. Nothing is written on the node.
BOOT = """
import base64, json, sys, types, zlib
for name, text in json.loads(zlib.decompress(base64.b64decode(sys.argv.pop(1))).decode()):
    module = sys.modules[name] = types.ModuleType(name)
    exec(compile(text, name, "exec"), module.__dict__)
"""
MARK = "\x1efullmesh-watch "
PYTHONS = ("/usr/bin/python3", "python3", "/usr/libexec/platform-python")
ENV_FILE = "/etc/fullmesh/env"
REACHED_BY = {
    "ansible_host": "host",
    "ansible_port": "port",
    "ansible_user": "user",
    "ansible_ssh_private_key_file": "key",
    "ansible_ssh_args": "args",
    "ansible_ssh_common_args": "common",
    "ansible_ssh_extra_args": "extra",
    "ansible_connection": "connection",
    "ansible_python_interpreter": "python",
}
KNOWN_CONNECTIONS = ("", "ssh", "smart", "local")
SSH = (
    *("-o", "BatchMode=yes"),
    *("-o", "ConnectTimeout=10"),
    *("-o", "ServerAliveInterval=15"),
    *("-o", "ControlPath=none"),
)
SSH_FAILED = 255
LONGEST = 2000  # characters of a message from a node
MOST_LINE = 1 << 20  # characters of a line that a node prints. The rest becomes the next line.


def extract_ssh_settings(variables: Mapping[str, Any]) -> dict[str, str]:
    """Extract the ssh settings from a host's variables, as ``fullmesh.ssh`` resolves them."""
    return {key: str(variables[name]) for name, key in REACHED_BY.items() if variables.get(name)}


def build_boot_code(program: str) -> str:
    """Build the code for Python on a node: it loads the modules, then calls *program*'s main."""
    return BOOT + f'sys.exit(sys.modules["{program}"].main(sys.argv[1:]))\n'


def bundle_programs(modules: Sequence[str] = MODULES) -> str:
    """Pack node programs for a command line."""
    held = [
        (name, (ROOT / "node_programs" / f"{name}.py").read_text(encoding="utf-8"))
        for name in modules
    ]
    return base64.b64encode(zlib.compress(json.dumps(held).encode(), 9)).decode()


def build_job_environment(plan: ClusterPlan, name: str) -> dict[str, str]:
    """Build the environment of a job on a node without Fullmesh's environment file."""
    node, master = plan["nodes"][name], plan["master"]
    made = {
        "MASTER_ADDR": master["address"],
        "MASTER_PORT": master["port"],
        "WORLD_SIZE": plan["world_size"],
        "NNODES": plan["nnodes"],
        "NODE_RANK": node["node_rank"],
        "NPROC_PER_NODE": node["local_ranks"],
        "FULLMESH_ADDRESS": node["address"],
        "FULLMESH_RENDEZVOUS": plan["rendezvous"]["endpoint"],
    }
    return {key: str(value) for key, value in made.items()}


def build_rank_environment(plan: ClusterPlan, name: str, command: Sequence[str]) -> dict[str, str]:
    """Return the rank of a node's single process if no launcher assigns it."""
    node = plan["nodes"][name]
    if int(node["local_ranks"]) != 1 or any("torch" in word and "run" in word for word in command):
        return {}
    return {"RANK": str(node["first_rank"]), "LOCAL_RANK": "0"}


def build_watch_script(
    plan: ClusterPlan,
    name: str,
    python: str,
    options: Sequence[str],
    command: Sequence[str],
) -> str:
    """Build the shell script for a node."""
    given = build_job_environment(plan, name)
    sets = " ".join(shlex.quote(f"{key}={value}") for key, value in given.items())
    # the launcher would otherwise start a second watch
    always = {"FULLMESH_WATCH": "0", **build_rank_environment(plan, name, command)}
    ours = " ".join(shlex.quote(f"{key}={value}") for key, value in always.items())
    settings = {**build_job_members(plan), "services": plan.get("services", [])}
    who = json.dumps(settings, separators=(",", ":"))
    arguments = [
        bundle_programs(),
        "--json",
        "--leash",
        "--name",
        name,
        "--plan",
        who,
        *options,
        "--",
    ]
    call = shlex.join(["-c", build_boot_code("fullmesh_watch"), *arguments, *command])
    pythons = " ".join(map(shlex.quote, [python, *PYTHONS] if python else PYTHONS))
    return (
        f"if [ -r {ENV_FILE} ]; then set -a; . {ENV_FILE}; set +a; else export {sets}; fi; export {ours}; "
        f'for p in {pythons}; do command -v "$p" >/dev/null 2>&1 && exec "$p" {call}; done; '
        "echo '[WA-107] No Python on this node. Install python3.' >&2; exit 127"
    )


def build_ssh_command(reach: Mapping[str, str], name: str, text: str) -> list[str]:
    """Build the command that runs a shell script on a node."""
    if reach.get("connection") == "local":
        return ["sh", "-c", text]
    made = ["ssh", *SSH]
    made += ["-p", reach["port"]] if reach.get("port") else []
    made += ["-l", reach["user"]] if reach.get("user") else []
    made += ["-i", reach["key"]] if reach.get("key") else []
    for kind in ("args", "common", "extra"):
        made += shlex.split(reach.get(kind, ""))
    return [*made, "--", reach.get("host") or name, text]


@dataclass
class WatchedNode:
    """A node and its part of the job.

    Attributes:
        name: in the inventory.
        process: the ssh.
        code: its exit code, None while it runs.
        started, ended: whether the watch at its other end has started, and whether it has reported the job's end.
        last: its last line on stderr.
    """

    name: str
    process: subprocess.Popen[str]
    code: int | None = None
    started: bool = False
    ended: bool = False
    last: str = ""


class JobHosts(TypedDict):
    """The plan, and the ssh settings of each node from the inventory."""

    plan: ClusterPlan
    hosts: dict[str, dict[str, str]]


@dataclass(frozen=True)
class NodeMessage:
    """A message from a node: a line of the job, an event with its time of arrival, or its end with ssh's exit code."""

    node: str
    kind: str
    text: str = ""
    event: WatchEvent | None = None
    code: int = 0
    at_ns: int = 0


def parse_watch_event(line: str) -> WatchEvent | None:
    """Parse a line as an event. Return None for any other line."""
    if not line.startswith(MARK):
        return None
    try:
        return convert_value(WatchEvent, parse_foreign_json(line[len(MARK) :]))
    except ValueError:
        return None


def forward_node_output(
    name: str, stream: IO[str], kind: str, said: queue.Queue[NodeMessage]
) -> None:
    """Forward a node's output, line by line."""
    for line in iter(lambda: stream.readline(MOST_LINE), ""):
        at_ns = time.time_ns()
        event = parse_watch_event(line) if kind == "stderr" else None
        if event is None:
            said.put(NodeMessage(name, kind, line.rstrip("\n")))
        else:
            said.put(NodeMessage(name, "event", event=event, at_ns=at_ns))


def start_node_job(name: str, argv: Sequence[str], said: queue.Queue[NodeMessage]) -> WatchedNode:
    """Start a node's part of the job."""
    # when this pipe closes, the job at the other end is stopped, even if this process is killed
    process = subprocess.Popen(  # noqa: S603 (the inventory's own ssh, no shell here)
        argv,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        errors="replace",
        start_new_session=True,
    )

    def follow() -> None:
        streams = ((process.stdout, "stdout"), (process.stderr, "stderr"))
        threads = [
            threading.Thread(
                target=forward_node_output, args=(name, stream, kind, said), daemon=True
            )
            for stream, kind in streams
            if stream is not None
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        said.put(NodeMessage(name, "end", code=process.wait()))

    threading.Thread(target=follow, daemon=True).start()
    return WatchedNode(name, process)


def clean_node_text(text: str) -> str:
    """Clean a text from a node for a terminal."""
    return clean_and_shorten(text, LONGEST)


def format_problem_endpoint(problem: JobProblem) -> str:
    """Format the endpoint of a problem."""
    host, port = clean_node_text(problem["host"]), problem["port"]
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def explain_missing_node(
    missing: JobProblem, found: Sequence[JobProblem], nodes: Mapping[str, WatchedNode]
) -> str:
    """Explain why a node is missing: from its own report, the store's node, and whether its job runs."""
    name = missing["node"]
    lines = [
        clean_node_text(p["why"])
        + (f" (it tries {format_problem_endpoint(p)})" if p["host"] != missing["host"] else "")
        for p in found
        if p["code"] == "WA-102" and p["at"] == name
    ]
    if missing["zone"]:
        lines.append(clean_node_text(missing["why"]))
    node = nodes.get(name)
    if not lines and node is not None and node.code is not None:
        end = "ssh failed" if node.code == SSH_FAILED and not node.started else f"exit {node.code}"
        lines.append(f"the job does not run there ({end}: {clean_and_shorten(node.last, 300)})")
    return "; ".join(lines) or clean_node_text(missing["why"])


def merge_problems(
    found: Sequence[JobProblem],
    known: Sequence[JobProblem],
    nodes: Mapping[str, WatchedNode],
) -> list[str]:
    """Return one sentence for each missing node, from the current and earlier reports of both ends."""
    lines, covered = [], set()
    for problem in found:
        if problem["code"] != "WA-101":
            continue
        covered.add(problem["node"])
        named = [clean_node_text(one) for one in (problem["at"], problem["service"]) if one]
        place = f"{format_problem_endpoint(problem)} ({', '.join(named)})"
        why = explain_missing_node(problem, known, nodes)
        lines.append(f"[WA-101] {clean_node_text(problem['who'])} has not reached {place}: {why}.")
    for problem in found:
        if problem["code"] == "WA-101" or (
            problem["code"] == "WA-102" and problem["at"] in covered
        ):
            continue
        lines.append(clean_node_text(problem["sentence"]))
    return lines
