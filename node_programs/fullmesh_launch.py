# Copyright (c) the Fullmesh contributors
# SPDX-License-Identifier: MIT
"""Start jobs with Open MPI and Slurm, and give every process its rank in the cluster plan, also for DeepSpeed.

Runs on the nodes as ``/opt/fullmesh/lib/fullmesh_launch.py COMMAND ...`` (standard library only). Every refusal has a
code and comes within seconds: nothing here waits longer than ``DEADLINE``.

It is one long file because it is installed and run without a package.
"""

from __future__ import annotations

import concurrent.futures
import contextlib
import importlib.util
import json
import os
import pwd
import re
import shlex
import shutil
import stat
import subprocess
import sys
import tempfile
import urllib.error
import urllib.request
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Any

    from fullmesh.observed.watch import ParticipantNode as Node
    from fullmesh.observed.watch import Participants

DEADLINE = 10
# Of `call` for a node that does not answer, and ssh's own (ssh(1), EXIT STATUS).
NO_LOGIN = (-1, 255)
BIN = "/opt/fullmesh/bin"
FOLDER = "/etc/fullmesh"
# Its sitecustomize lets root and the job's account query a rank's state (fullmesh-hang).
HOOK = "/opt/fullmesh/hook"
# Folders of Open MPI in distributions that keep it out of the PATH (EL).
MPI_PLACES = ("/usr/lib64/openmpi/bin", "/usr/lib64/openmpi5/bin", "/opt/openmpi/bin")
# Variables with a value per node: they come from that node's file, never from the node that starts the job.
NODES_OWN = frozenset(
    [
        "FULLMESH_ADDRESS",
        "GLOO_SOCKET_IFNAME",
        "NCCL_IB_ADDR_FAMILY",
        "NCCL_IB_DISABLE",
        "NCCL_IB_GID_INDEX",
        "NCCL_IB_HCA",
        "NCCL_NSOCKS_PERTHREAD",
        "NCCL_SOCKET_IFNAME",
        "NCCL_SOCKET_NTHREADS",
        "NODE_RANK",
        "NO_PROXY",
        "NPROC_PER_NODE",
        "TORCHCOMM_GLOO_INTERFACE",
        "no_proxy",
    ]
)
# Settings of communication libraries, their transports, and AMD's runtime. Those that name an interface or address are
# specific to a node and not passed on.
LIBRARIES = re.compile(
    r"(NCCL|RCCL|HCCL|ASCEND|UCC|UCX|GLOO|TORCH|TORCHCOMMS?|FI|HSA)_[A-Z0-9_]+"
    r"(?<!_IFNAME)(?<!_IF_IP)(?<!_DEVICES)(?<!_INTERFACE)(?<!_HOSTNAME)(?<!COMM_RANK)$"
)
# The variable that identifies the launcher -> the local rank, and the variables of the total number.
STARTERS = (
    ("OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_RANK", ("OMPI_COMM_WORLD_SIZE",)),
    ("SLURM_LOCALID", "SLURM_LOCALID", ("SLURM_STEP_NUM_TASKS", "SLURM_NTASKS")),
    # DeepSpeed's own launcher (deepspeed/launcher/launch.py). Others also set LOCAL_RANK.
    ("CROSS_SIZE", "LOCAL_RANK", ("WORLD_SIZE",)),
)


class LaunchError(Exception):
    """A coded sentence for the user."""


def get_env_path(env: Mapping[str, str]) -> str:
    """Return the path of the node's environment file."""
    return env.get("FULLMESH_ENV") or FOLDER + "/env"


def read_node_env(path: str) -> dict[str, str]:
    """Return the variables in the node's file. The role cluster_env writes only values that need no shell."""
    found = {}
    try:
        with open(path, encoding="utf-8") as stream:
            for line in stream:
                name, sign, value = line.rstrip("\n").partition("=")
                if sign and not name.startswith("#"):
                    found[name] = value[1:-1] if value.startswith("'") else value
    except OSError:
        raise LaunchError(
            f"[LA-102] {path} cannot be read. Fix: apply the role cluster_env to this node."
        ) from None
    return found


def read_nodes_file() -> Participants:
    """Return the participants of the plan, from the file of the role launchers."""
    path = FOLDER + "/nodes.json"
    try:
        with open(path, encoding="utf-8") as stream:
            found: Participants = json.load(stream)
    except (OSError, ValueError):
        raise LaunchError(
            f"[LA-102] {path} cannot be read. Fix: apply the role launchers to this node."
        ) from None
    return found


def merge_env(own: Mapping[str, str], caller: Mapping[str, str]) -> dict[str, str]:
    """Merge the environments: the caller's variables win, except those that belong to the node."""
    env = dict(own)
    env.update({name: value for name, value in caller.items() if name not in NODES_OWN})
    env.update({name: own[name] for name in NODES_OWN if name in own})
    return env


def find_program(name: str, say: str) -> str:
    """Return a program's path."""
    found = shutil.which(name) or shutil.which(name, path=os.pathsep.join(MPI_PLACES))
    if not found:
        raise LaunchError(f"[LA-107] {name} is not installed on this node. {say}")
    return found


OPENMPI = "Set launchers_openmpi: true and run site.yml, or install your distribution's Open MPI."
MPI_DIFFERS = "Daemons of different versions cannot communicate: install one version on all, or use fullmesh-torchrun."
SLURM = "Install your site's Slurm client on it, or use fullmesh-torchrun, which needs no Slurm."


def call_command(argv: Sequence[str], seconds: int = DEADLINE) -> tuple[int, str]:
    """Return the exit status and output of a command, with status -1 after the deadline."""
    try:
        done = subprocess.run(
            list(argv),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=seconds,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return -1, f"no answer for {seconds} s"
    return done.returncode, done.stdout.decode(errors="replace").strip()


def get_last_line(said: str) -> str:
    """Return the last line of a command's output."""
    return (said.splitlines() or ["no words"])[-1].strip()


def select_nodes(who: Participants, names: Sequence[str]) -> list[Node]:
    """Return the nodes of a job in the plan's order. Without names: all."""
    nodes = list(who["nodes"])
    if not names:
        return nodes
    wanted = []
    for name in names:
        found = [
            n for n in nodes if name in (n["name"], n["address"]) or name in n.get("names", [])
        ]
        if not found:
            raise LaunchError(
                "[LA-113] {} is not a node of the cluster plan, which has {}. "
                "Fix: use the plan's names. For Slurm, rename the node or set fullmesh_hostname.".format(
                    name, ", ".join(n["name"] for n in nodes)
                )
            )
        wanted.append(found[0]["name"])
    return [n for n in nodes if n["name"] in wanted]


def refuse_wrong_size(nodes: Sequence[Node], node: Node, local: int, size: int) -> None:
    """Refuse a job whose size is not the plan's.

    Its ranks would be wrong (NCCL: Invalid rank requested : 7/4).
    """
    world = sum(one["local_ranks"] for one in nodes)
    if size != world or local >= node["local_ranks"]:
        ranks = ", ".join(f"{one['local_ranks']} on {one['name']}" for one in nodes)
        raise LaunchError(
            f"[LA-112] {size} processes were started and this is number {local + 1} on {node['name']}, but the plan "
            f"has {world} ranks: {ranks}. Fix: start the plan's number, or set fullmesh_local_ranks."
        )


def build_rank_variables(
    who: Participants, nodes: Sequence[Node], address: str, local: int, size: int
) -> dict[str, str]:
    """Return the rank variables of process number *local* on the node with *address*.

    Ranks follow the plan's order of *nodes*, so they do not depend on the node that starts the job.
    """
    mine = [at for at, node in enumerate(nodes) if address in node["addresses"]]
    if not mine:
        raise LaunchError(
            "[LA-113] This node ({}) is not among the nodes of the job: {}. Fix: start it on those.".format(
                address, ", ".join(node["name"] for node in nodes)
            )
        )
    node = nodes[mine[0]]
    world = sum(one["local_ranks"] for one in nodes)
    refuse_wrong_size(nodes, node, local, size)
    first = sum(one["local_ranks"] for one in nodes[: mine[0]])
    whole = len(nodes) == len(who["nodes"])
    master = who["master"]["address"] if whole else nodes[0]["address"]
    found = {
        "RANK": first + local,
        "LOCAL_RANK": local,
        "LOCAL_WORLD_SIZE": node["local_ranks"],
        "WORLD_SIZE": world,
        "GROUP_RANK": mine[0],
        "NODE_RANK": mine[0],
        "NNODES": len(nodes),
        "MASTER_ADDR": master,
        "MASTER_PORT": who["master"]["port"],
    }
    return {name: str(value) for name, value in found.items()}


def list_job_nodes(env: Mapping[str, str]) -> list[str]:
    """Return the names of the job's nodes, [] for all of them."""
    if env.get("FULLMESH_NODES"):
        return env["FULLMESH_NODES"].split(",")
    listed = env.get("SLURM_STEP_NODELIST") or env.get("SLURM_JOB_NODELIST") or ""
    if not listed or "OMPI_COMM_WORLD_SIZE" in env:
        return []
    # needs no answer of slurmctld: it only writes node[1-2] out
    status, said = call_command([find_program("scontrol", SLURM), "show", "hostnames", listed])
    if status:
        raise LaunchError(
            f"[LA-111] scontrol cannot read {listed!r}: {get_last_line(said)}. Check: sinfo"
        )
    return said.split()


def build_rank_env(env: Mapping[str, str], who: Participants) -> dict[str, str]:
    """Return the complete environment of one process of a job."""
    result = merge_env(read_node_env(get_env_path(env)), env)
    for sign, local, sizes in STARTERS:
        if sign in env and local in env:
            size = next(int(env[name]) for name in sizes if name in env)
            nodes = select_nodes(who, list_job_nodes(env))
            result.update(
                build_rank_variables(who, nodes, result["FULLMESH_ADDRESS"], int(env[local]), size)
            )
            return result
    raise LaunchError(
        "[LA-112] No variable shows which process of the job this is. "
        "Fix: start it with fullmesh-mpirun, fullmesh-srun, fullmesh-sbatch or fullmesh-deepspeed."
    )


def build_script_command(words: Sequence[str]) -> list[str]:
    """Return the command: scripts run with the environment's Python, others are programs."""
    return ([sys.executable, "-u"] if words[0].endswith(".py") else []) + list(words)


def prepare_compiler_cache() -> str:
    """Return a cache folder for torch's compiler that only this account can write to.

    torch would use a folder of any account and run the code in it.
    """
    path = os.path.join(tempfile.gettempdir(), f"torchinductor_{os.geteuid()}")
    with contextlib.suppress(OSError):  # it is there
        os.mkdir(path, 0o700)
    with contextlib.suppress(OSError):
        info = os.lstat(path)
        open_to_others = info.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
        if stat.S_ISDIR(info.st_mode) and info.st_uid == os.geteuid() and not open_to_others:
            return path
    return tempfile.mkdtemp()


def exec_rank(words: Sequence[str]) -> None:
    """Replace this process by the job's."""
    env = build_rank_env(os.environ, read_nodes_file())
    if not env.get("TORCHINDUCTOR_CACHE_DIR"):
        try:
            env["TORCHINDUCTOR_CACHE_DIR"] = prepare_compiler_cache()
        except OSError as exc:
            raise LaunchError(
                f"[LA-125] No temporary folder can be made: {exc.strerror}. Check: df -h $TMPDIR /tmp. "
                "Fix: make room there, make it writable, or set TMPDIR."
            ) from exc
    if env.get("FULLMESH_HANG") != "0":
        env["PYTHONPATH"] = os.pathsep.join(filter(None, [HOOK, env.get("PYTHONPATH", "")]))
    argv = build_script_command(words)
    os.execvpe(argv[0], argv, env)  # noqa: S606  # a launcher starts programs


def split_options(words: Sequence[str]) -> tuple[list[str], list[str]]:
    """Split options (``--name=value``) before the script from the script with its arguments."""
    at = next((at for at, word in enumerate(words) if not word.startswith("-")), len(words))
    if at == len(words):
        raise LaunchError(
            "[LA-104] No script was given. Usage: COMMAND [--name=value ...] SCRIPT [ARGUMENTS]"
        )
    return list(words[:at]), list(words[at:])


def read_ssh_user() -> str:
    """Return the account for logins between the nodes."""
    path = FOLDER + "/ssh/config"
    try:
        with open(path, encoding="utf-8") as stream:
            found = re.search(r"^\s*User (\S+)$", stream.read(), re.MULTILINE)
    except OSError:
        found = None
    if not found:
        raise LaunchError(
            f"[LA-110] The nodes cannot log in to each other: there is no {path}. "
            "Fix: set node_ssh_manage: true and run site.yml."
        )
    return found.group(1)


def refuse_wrong_account(user: str, words: Sequence[str], tool: str) -> None:
    """Refuse an account that does not own the key."""
    me = pwd.getpwuid(os.geteuid()).pw_name
    if me != user:
        raise LaunchError(
            "[LA-114] {} was started as {}, and the cluster's key is {}'s. Start it with: "
            "runuser -u {} -- {}/{} {}".format(
                tool.removeprefix("fullmesh-"), me, user, user, BIN, tool, shlex.join(words)
            )
        )


def take_nodes_option(options: Sequence[str]) -> tuple[list[str], list[str]]:
    """Return the names in ``--nodes=`` ([] for all nodes), and the other options."""
    mine = [one.partition("=")[2] for one in options if one.startswith("--nodes=")]
    rest = [one for one in options if not one.startswith("--nodes=")]
    return (mine[0].split(",") if mine else []), rest


def run_on_nodes(nodes: Sequence[Node], words: Sequence[str]) -> dict[str, tuple[int, str]]:
    """Run a command on all nodes at the same time and return their answers."""

    def ask(node: Node) -> tuple[int, str]:
        return call_command([BIN + "/fullmesh-ssh", node["address"], shlex.join(words)])

    with concurrent.futures.ThreadPoolExecutor(max_workers=32) as pool:
        said = list(pool.map(ask, nodes))
    return {node["name"]: one for node, one in zip(nodes, said)}


def refuse_unfit_nodes(
    answers: Mapping[str, tuple[int, str]], what: str, install: str, differ: str
) -> None:
    """Refuse a job that the other launcher could not start, with a clear message.

    Args:
        answers: each node's version of *what*.
        what: the program.
        install: how to install it.
        differ: why different versions do not work.

    Raises:
        LaunchError: LA-110, no login. LA-107, it is not installed. LA-115, versions that differ.
    """
    silent = {
        name: get_last_line(said) for name, (code, said) in answers.items() if code in NO_LOGIN
    }
    if silent:
        raise LaunchError(
            "[LA-110] No login to {}. Fix: run site.yml with node_ssh_manage: true. Check: {}/fullmesh-ssh ADDRESS "
            "true".format(", ".join(f"{name} ({said})" for name, said in silent.items()), BIN)
        )
    without = [f"{name} ({get_last_line(said)})" for name, (code, said) in answers.items() if code]
    if without:
        raise LaunchError(f"[LA-107] {what} is missing on: {', '.join(without)}. {install}")
    versions = {name: get_last_line(said) for name, (_code, said) in answers.items()}
    if len(set(versions.values())) > 1:
        raise LaunchError(
            "[LA-115] The nodes have different versions of {}: {}. {}".format(
                what, ", ".join(f"{name}: {one}" for name, one in sorted(versions.items())), differ
            )
        )


def build_mpi_options(who: Participants, nodes: Sequence[Node], whole: bool) -> list[str]:
    """Return mpirun's options for nodes, networks, ports and logins.

    The kernel chooses the daemons' port, so it is in the pinned range. With oob_tcp_dynamic_ipv4_ports they would
    listen on every port of the list (4.1.4: 4096 ports end with "Too many open files"). By default, ranks try ports
    from 1024 upwards, which no firewall has open.
    """
    ports, networks = who["data_ports"], ",".join(who["networks"])
    size = ports["last"] - ports["first"] + 1
    values = {
        "plm": "rsh",
        "plm_rsh_agent": BIN + "/fullmesh-ssh",
        "orte_launch_agent": BIN + "/fullmesh-orted",
        "oob_tcp_if_include": networks,
        "btl_tcp_if_include": networks,
        "btl_tcp_port_min_v4": ports["first"],
        "btl_tcp_port_range_v4": size,
    }
    world = sum(node["local_ranks"] for node in nodes)
    options = ["--noprefix", "-np", str(world), "--map-by", "slot", "--bind-to", "none"]
    if whole:
        options += ["--hostfile", FOLDER + "/hostfile"]
    else:
        hosts = [f"{node['address']}:{node['local_ranks']}" for node in nodes]
        options += ["--host", ",".join(hosts)]
    for name, value in values.items():
        options += ["--mca", name, str(value)]
    return options


def build_export_options(own: Mapping[str, str], caller: Mapping[str, str]) -> list[str]:
    """Return ``-x`` options for variables that all nodes need.

    They are those of the file that are the same on all nodes, and the caller's library settings.
    """
    names = own.keys() | {name for name in caller if LIBRARIES.match(name)}
    return [word for name in sorted(names - NODES_OWN) for word in ("-x", name)]


def exec_mpirun(words: Sequence[str]) -> None:
    """Start a job with Open MPI from this node."""
    options, script = split_options(words)
    path = find_program("mpirun", OPENMPI)
    user = read_ssh_user()
    refuse_wrong_account(user, words, "fullmesh-mpirun")
    named, _ = take_nodes_option(options)
    who, own = read_nodes_file(), read_node_env(get_env_path(os.environ))
    nodes = select_nodes(who, named)
    refuse_unfit_nodes(
        run_on_nodes(nodes, [BIN + "/fullmesh-orted", "--version"]),
        "Open MPI",
        OPENMPI,
        MPI_DIFFERS,
    )
    env = merge_env(own, os.environ)
    argv = [path, *build_mpi_options(who, nodes, not named), *build_export_options(own, os.environ)]
    if named:
        env["FULLMESH_NODES"] = ",".join(node["name"] for node in nodes)
        argv += ["-x", "FULLMESH_NODES"]
    argv += shlex.split(os.environ.get("FULLMESH_MPIRUN_OPTIONS", ""))
    argv += [BIN + "/fullmesh-rank", *script]
    os.execvpe(path, argv, env)  # noqa: S606  # a launcher starts programs


def exec_orted(words: Sequence[str]) -> None:
    """Run this node's Open MPI daemon from the folder of its distribution."""
    path = find_program("orted", OPENMPI)
    if list(words) == ["--version"]:
        status, said = call_command([find_program("mpirun", OPENMPI), "--version"])
        sys.stdout.write(said.splitlines()[0] + "\n" if said else "")
        sys.exit(status)
    os.execv(path, [path, *words])  # noqa: S606  # a launcher starts programs


def refuse_silent_slurm() -> None:
    """Refuse a Slurm whose controller does not answer, because srun would wait for it."""
    status, said = call_command([find_program("scontrol", SLURM), "ping"])
    if status or " is DOWN" in said:
        raise LaunchError(
            "[LA-111] Slurm does not answer: {}. Check: `systemctl status slurmctld` on its controller. "
            "Fix: let peers reach its ports (fullmesh_services: slurm, ports 6817 and 6818).".format(
                next(
                    (line for line in said.splitlines() if " is DOWN" in line), get_last_line(said)
                )
            )
        )


def build_slurm_sizes(who: Participants, options: Sequence[str]) -> list[str]:
    """Return the plan's nodes and tasks, unless the caller requested fewer nodes."""
    each = sorted({node["local_ranks"] for node in who["nodes"]})
    if len(each) > 1:
        raise LaunchError(
            "[LA-112] The plan has {} ranks on its nodes, and a Slurm step has one number for all. "
            "Fix: use fullmesh-mpirun or fullmesh-torchrun.".format(
                " and ".join(str(one) for one in each)
            )
        )
    sizes = [f"--ntasks-per-node={each[0]}"]
    if not any(re.match(r"(--nodes=|--nodelist=|-N|-w)", one) for one in options):
        sizes.append(f"--nodes={len(who['nodes'])}")
    return sizes


def exec_srun(words: Sequence[str]) -> None:
    """Start a job's step with Slurm, in an allocation or outside of one."""
    options, script = split_options(words)
    path = find_program("srun", SLURM)
    refuse_silent_slurm()
    sizes = [] if "SLURM_JOB_ID" in os.environ else build_slurm_sizes(read_nodes_file(), options)
    # --mpi=none: torch has its own store. --kill-on-bad-exit: otherwise the others would wait for the missing rank.
    argv = [path, "--mpi=none", "--kill-on-bad-exit=1", *sizes, *options]
    argv += [BIN + "/fullmesh-rank", *script]
    os.execv(path, argv)  # noqa: S606  # a launcher starts programs


def exec_sbatch(words: Sequence[str]) -> None:
    """Queue a job with Slurm."""
    options, script = split_options(words)
    path = find_program("sbatch", SLURM)
    refuse_silent_slurm()
    argv = [
        path,
        *build_slurm_sizes(read_nodes_file(), options),
        *options,
        FOLDER + "/job.sbatch",
        *script,
    ]
    os.execv(path, argv)  # noqa: S606  # a launcher starts programs


def fetch_status(url: str) -> int:
    """Return the HTTP status of *url*, without any proxy."""
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(url, timeout=DEADLINE / 2) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as error:
        return int(error.code)


def refuse_unusable_etcd(words: Sequence[str]) -> None:
    """Refuse an etcd that torchrun would wait for without a result."""
    endpoint = words[0] if words else ""
    if not endpoint:
        raise LaunchError(
            "[LA-108] No etcd is named. Fix: set launchers_etcd (or FULLMESH_ETCD) to its address:port, or use c10d, "
            "which needs none."
        )
    if importlib.util.find_spec("etcd") is None:
        raise LaunchError(
            "[LA-107] torch's etcd rendezvous needs the package python-etcd, which is not in "
            f"{sys.prefix}. Fix: put a wheel of it into your lock (docs/launchers.md), or use c10d, which needs none."
        )
    try:
        fetch_status(f"http://{endpoint}/version")
        status = fetch_status(f"http://{endpoint}/v2/keys/")
    except (OSError, ValueError) as error:
        raise LaunchError(
            "[LA-108] etcd at {} does not answer: {}. Check: `systemctl status etcd` there. Fix: let peers reach its "
            "port (fullmesh_services), or use c10d, which needs none.".format(
                endpoint, getattr(error, "reason", error)
            )
        ) from None
    if status == 404:  # noqa: PLR2004  # HTTP's own number
        raise LaunchError(
            f"[LA-109] etcd at {endpoint} has no v2 interface, and torch knows no other. "
            "Fix: start it with --enable-v2 (etcd 3.6 has none), or use c10d."
        )


COMMANDS = {
    "rank": exec_rank,
    "mpirun": exec_mpirun,
    "orted": exec_orted,
    "srun": exec_srun,
    "sbatch": exec_sbatch,
    "etcd": refuse_unusable_etcd,
}


def run_launcher(command: Callable[..., None], *words: Any) -> int:
    """Run a command. A refusal goes to stderr and exits with 2."""
    try:
        command(*words)
    except LaunchError as error:
        sys.stderr.write(f"{error}\n")
        return 2
    return 0


def main(argv: Sequence[str]) -> int:
    """Run one of the commands."""
    return run_launcher(COMMANDS[argv[0]], argv[1:])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
