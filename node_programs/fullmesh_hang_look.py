# Copyright (c) the Fullmesh contributors
# SPDX-License-Identifier: MIT
"""Collect the state of the ranks on this node, from the ranks themselves (fullmesh_hook.py) and from the kernel.

Nothing is changed in the job. root sees all jobs, other accounts only their own.

This file is long because it joins both sources rank by rank.
"""

from __future__ import annotations

import os
import re
import struct
import time
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import fullmesh_hang_answer as hang_answer
import fullmesh_hang_border as hang_border
import fullmesh_hang_calls as hang_calls
import fullmesh_hang_evidence as hang_evidence
import fullmesh_hang_ras as hang_ras
import fullmesh_hang_rdma as hang_rdma
import fullmesh_hang_wait as hang_wait
import fullmesh_watch_look as watch_look
from fullmesh_foreign_text import parse_decimal
from fullmesh_hang_border import ForeignProcessError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from fullmesh.observed.hang import (
        GroupArrivals,
        KernelLine,
        Launcher,
        MainThreadState,
        MissingPart,
        NodeHang,
        Rank,
        RankConnection,
        RankGpu,
        RecorderEntry,
    )

FIND_SECONDS = 3.0  # for the environments and command lines of all processes
READ_SECONDS = 5.0  # for the answers of all ranks
JOB = ("TORCHELASTIC_RUN_ID", "SLURM_JOB_ID", "OMPI_MCA_ess_base_jobid")
# The size of torch's record. torch 2.8 renamed the variable, and knows the old name as well.
SIZES = ("TORCH_FR_BUFFER_SIZE", "TORCH_NCCL_TRACE_BUFFER_SIZE")
RENAMED = (2, 8)
DEFAULTS_TO_ON = (2, 10)  # before, torch keeps no record unless the variable is set
MOST_ENTRIES = (1 << 31) - 1
RELEASE = re.compile(r"(\d{1,4})\.(\d{1,4})")
NO_NAME = "none"  # torchrun's id of jobs without --rdzv-id
ON_FILES = frozenset(["read", "write", "pread64", "pwrite64", "writev", "fsync", "close"])
NOTHING: MainThreadState = {
    "state": "",
    "wchan": "",
    "syscall": "",
    "fd": -1,
    "target": "",
    "forever": False,
    "functions": [],
}


# --- from outside -----------------------------------------------------------------------------------


def read_native_state(pid: int, waits: hang_wait.WaitFinder) -> MainThreadState:
    """Return the kernel's state of the main thread, and the object that it waits for."""
    call = hang_calls.read_thread_call(pid)
    thread, process = hang_calls.read_cpu_seconds(pid)
    found: MainThreadState = {
        **NOTHING,
        "state": call.state,
        "wchan": call.wchan,
        "syscall": call.name,
        # its fourth argument is the timeout (futex(2))
        "forever": call.name == "futex" and call.args[3] == 0,
        "thread_cpu": thread,
        "process_cpu": process,
        "queued": hang_calls.read_queued_seconds(pid),
    }
    if call.name in ON_FILES:
        found["fd"] = hang_calls.as_descriptor(call.args[0])
        found["target"] = hang_calls.shorten_text(hang_calls.read_link(pid, found["fd"]))
    try:
        wait = waits.find_wait(pid)
    except (OSError, ValueError, IndexError, struct.error):
        return found  # it ended meanwhile, or changed its memory
    return {**found, "wait": wait} if wait else found


# --- the ranks of this node -------------------------------------------------------------------------


def read_rank_environment(pid: int) -> dict[str, str]:
    """Return the variables of a process that determine its job, its rank, its record and the address of NCCL RAS."""
    wanted = {*watch_look.TOLD, *JOB, *SIZES, *hang_ras.VARIABLES}
    found = {}
    for pair in watch_look.read_proc_bytes(
        f"/proc/{pid}/environ", hang_border.MOST_ENVIRONMENT
    ).split(b"\0"):
        key, equals, value = pair.partition(b"=")
        if equals and key.decode("utf-8", "replace") in wanted:
            found[key.decode()] = value.decode("utf-8", "replace")
    return found


def parse_rank(env: Mapping[str, str]) -> tuple[int, int]:
    """Return the rank and the world size in a process's environment, -1 without them.

    Raises:
        ForeignProcessError: a value is not a number, or exceeds the limit.
    """
    for name, size in (("RANK", "WORLD_SIZE"), *watch_look.RANKS):
        if name not in env:
            continue
        rank = parse_decimal(env[name], hang_border.MOST_RANKS)
        if rank is not None:
            return rank, parse_decimal(env.get(size), hang_border.MOST_RANKS) or 0
        if size in env:
            raise ForeignProcessError(f"{name} is {env[name][:40]!r}, which is not a rank")
    return -1, 0


def get_job_name(env: Mapping[str, str]) -> str:
    """Return a job's name that is the same for all its ranks."""
    known = [env[name] for name in JOB if env.get(name) and env[name] != NO_NAME]
    master = "{}:{}".format(env.get("MASTER_ADDR", ""), env.get("MASTER_PORT", ""))
    return (known[0] if known else master)[: hang_border.LONGEST_NAME]


class ProcessRole(NamedTuple):
    """The role of a process: a rank, by its environment, or a launcher. Neither if both are empty."""

    env: dict[str, str]
    launcher: Launcher | None


def read_process_role(pid: int) -> ProcessRole:
    """Return the role of a process.

    Raises:
        ForeignProcessError: it is a rank or launcher with impossible numbers.
    """
    if pid == os.getpid() or not is_python_process(pid):
        return ProcessRole({}, None)
    env = read_rank_environment(pid)
    return ProcessRole(env if parse_rank(env)[0] >= 0 else {}, hang_evidence.read_launcher(pid))


class FoundRanks:
    """The ranks and launchers on this node by account, and the processes that are left out."""

    def __init__(self, job: str, pids: Iterable[int] | None = None) -> None:
        """Find them among all or some processes."""
        self.parents = watch_look.map_parents()
        here = self.parents if pids is None else set(pids) & self.parents.keys()
        by_account = hang_border.AccountNames().sort(here)
        work = {
            account: [(pid, partial(read_process_role, pid)) for pid in ones]
            for account, ones in by_account.items()
        }
        answer, failed = hang_border.read_by_account(work, FIND_SECONDS)
        self.ranks: dict[str, dict[int, dict[str, str]]] = {}
        self.launchers: list[Launcher] = []
        self.left_out: dict[str, list[tuple[int, str]]] = {}
        for account, ones in by_account.items():
            bad = [(pid, failed[pid]) for pid in ones if pid in failed]
            mine = {pid: answer[pid] for pid in ones if pid in answer}
            for one in mine.values():
                if one.launcher is not None:
                    self.launchers.append({**one.launcher, "account": account})
            ranks = self.choose_ranks({pid: one.env for pid, one in mine.items() if one.env}, job)
            text = f"its account has more than {hang_border.MOST_OF_ACCOUNT} ranks on this node"
            bad += [(pid, text) for pid in ranks[hang_border.MOST_OF_ACCOUNT :]]
            if bad:
                self.left_out[account] = bad
            if ranks:
                self.ranks[account] = {
                    pid: mine[pid].env for pid in ranks[: hang_border.MOST_OF_ACCOUNT]
                }

    def choose_ranks(self, ranks: dict[int, dict[str, str]], job: str) -> list[int]:
        """Choose an account's ranks among the processes with a rank variable, without children of ranks."""
        if job:
            ranks = {pid: env for pid, env in ranks.items() if get_job_name(env) == job}
        if any("RANK" in env for env in ranks.values()):
            # torchrun's agent below srun has Slurm's number, and its ranks have their own
            ranks = {pid: env for pid, env in ranks.items() if "RANK" in env}
        return [
            pid
            for pid, env in sorted(ranks.items())
            if parse_rank(ranks.get(self.parents[pid], {})) != parse_rank(env)
        ]

    def jobs(self) -> list[str]:
        """Return the names of the jobs."""
        return sorted({get_job_name(env) for ones in self.ranks.values() for env in ones.values()})


def is_python_process(pid: int) -> bool:
    """Return whether a process is Python. Shells and launchers in between are not ranks."""
    try:
        return os.path.basename(os.readlink(f"/proc/{pid}/exe")).startswith(("python", "pypy"))
    except OSError:
        return False


class NodeEvidence:
    """Data that is read once for all ranks of a node."""

    def __init__(self, *, thorough: bool = True) -> None:
        """Read the kernel's data. *thorough*: also query the GPUs' driver, and py-spy for ranks that do not answer."""
        self.thorough = thorough
        self.waits = hang_wait.WaitFinder(hang_calls.OpenFiles() if thorough else None)
        self.kernel: list[KernelLine] = hang_evidence.find_kernel_events()
        self.connections: dict[str, RankConnection] = {}
        self.why = self.no_gpus = ""
        self.gpus: dict[int, list[RankGpu]] | None = None
        self.cpu = hang_evidence.read_node_cpu()
        self.rdma = hang_rdma.read_node_ports()
        try:
            self.gpus = hang_evidence.read_process_gpus() if thorough else None
        except OSError as exc:
            self.no_gpus = str(exc)
        try:
            self.connections = hang_evidence.read_connections()
        except OSError as exc:
            self.why = f"the kernel does not show them: {exc}"

    def add_to(self, rank: Rank, pid: int) -> None:
        """Add the data about one rank."""
        why = "it is in another network" if hang_evidence.is_in_other_network(pid) else self.why
        if why:
            rank["missing"].append({"what": "connections", "why": why})
        else:
            rank["connections"] = hang_evidence.select_connections(pid, self.connections)
        rank["node_cpu"] = self.cpu
        rank["limits"] = hang_evidence.read_cgroup_limits(pid)
        rank["paging"] = hang_evidence.read_paging(pid)
        if self.no_gpus:
            rank["missing"].append({"what": "gpus", "why": self.no_gpus})
        elif self.gpus is not None:
            rank["gpus"] = self.gpus.get(pid, [])
        rank["kernel"] = [one for one in self.kernel if one["pid"] == pid or one["kind"] == "xid"]


def explain_silence(pid: int, error: Exception) -> str:
    """Return why a process did not answer."""
    if not hang_calls.read_process_state(pid):
        return "it has ended"
    if isinstance(error, ConnectionRefusedError):
        return "it was not started by a launcher of Fullmesh, with the hook"
    uid = os.geteuid()
    if not hang_border.is_uid_mapped(pid, uid):
        return (
            f"its user namespace does not map this account (uid {uid}), as in a rootless container. "
            "Fix: run it as the account that started the container: sudo -u ACCOUNT fullmesh-hang"
        )
    return f"its process does not answer: {hang_border.describe_read_error(error)}"


class QueriedRank(NamedTuple):
    """A rank's own answer, and the reasons for missing parts."""

    header: hang_answer.RankAnswer
    entries: list[RecorderEntry]
    arrivals: list[GroupArrivals]
    missing: list[MissingPart]


def query_rank(pid: int, share: hang_border.AnswerBudget | None) -> QueriedRank:
    """Query a rank."""
    header = hang_answer.NOTHING
    try:
        header, record = hang_answer.query_process(pid, share)
        if header["why"]:
            return QueriedRank(header, [], [], [{"what": "recorder", "why": header["why"]}])
        return QueriedRank(header, *hang_answer.read_records(record), [])
    except (OSError, ValueError) as error:
        why = explain_silence(pid, error)
        return QueriedRank(header, [], [], [{"what": "recorder", "why": why}])


def explain_empty_record(env: Mapping[str, str], version: str) -> str:
    """Return the reason why torch keeps no record, "" if it keeps one or its version is not known."""
    found = RELEASE.match(version)
    release = (int(found[1]), int(found[2])) if found else DEFAULTS_TO_ON
    names = SIZES if release >= RENAMED else SIZES[1:]
    default = "0" if release < DEFAULTS_TO_ON else ""
    value = next((env[name] for name in names if env.get(name)), default)
    if parse_decimal(value, MOST_ENTRIES) != 0:
        return ""
    return f"torch keeps no record of its collectives (set {names[0]}=2000 for the job)"


def read_rank_state(
    pid: int,
    env: Mapping[str, str],
    host: str,
    around: NodeEvidence,
    share: hang_border.AnswerBudget | None = None,
) -> Rank:
    """Return one rank: its own answer, and the observed state."""
    rank, world = parse_rank(env)
    # before the query: the hook reads the stack first, and what a running thread waits for changes within milliseconds
    seen = read_native_state(pid, around.waits)
    header, entries, arrivals, missing = query_rank(pid, share)
    why = "" if entries or missing else explain_empty_record(env, header["torch"])
    if why:
        missing.append({"what": "recorder", "why": why})
    threads = header["threads"]
    if not threads and around.thorough:
        threads = hang_answer.dump_stacks(pid)
    if not threads:
        missing.append({"what": "stacks", "why": missing[-1]["why"] if missing else "it says none"})
    found: Rank = {
        **describe_unread_rank(pid, env, host, ""),
        "rank": header["rank"] if header["rank"] >= 0 else rank,
        "world": header["world"] or world,
        "process": "running"
        if hang_calls.read_process_state(pid) not in ("", "Z", "X")
        else "gone",
        "groups": header["groups"],
        "entries": entries,
        "arrivals": arrivals,
        "full_collections": header["full_collections"],
        "threads": threads,
        "native": seen,
        "raised": header["raised"],
        "missing": missing,
    }
    around.add_to(found, pid)
    ports = hang_rdma.select_rank_ports(pid, around.rdma, header["rdma"])
    if ports:
        found["rdma"] = ports
    return found


def describe_unread_rank(pid: int, env: Mapping[str, str], host: str, why: str) -> Rank:
    """Return a rank without any data except that its process exists."""
    rank, world = parse_rank(env)
    return {
        "rank": rank,
        "world": world,
        "host": host,
        "pid": pid,
        "taken_ns": time.time_ns(),
        "process": "unasked",
        "exit_code": None,
        "groups": [],
        "entries": [],
        "threads": [],
        "native": {**NOTHING},
        "raised": None,
        "missing": [{"what": "process", "why": why}],
        "job": get_job_name(env),
        "uid": hang_border.find_account_uid(pid),
    }


def read_ranks(found: FoundRanks, host: str, around: NodeEvidence) -> list[Rank]:
    """Read all ranks at the same time, so that a hung one does not delay the others."""
    work: dict[str, list[tuple[int, Callable[[], Rank]]]] = {}
    for account, ones in found.ranks.items():
        share = hang_border.AnswerBudget()
        work[account] = [
            (pid, partial(read_rank_state, pid, env, host, around, share=share))
            for pid, env in ones.items()
        ]
    read, failed = hang_border.read_by_account(work, READ_SECONDS)
    ranks: list[Rank] = []
    for account, ones in found.ranks.items():
        here = []
        for pid, env in ones.items():
            why = f"it could not be read: {failed[pid]}" if pid in failed else ""
            here.append(describe_unread_rank(pid, env, host, why) if why else read[pid])
            here[-1]["account"] = account
        hang_border.limit_to_share(here, hang_border.MOST_OF_NODE // len(found.ranks))
        ranks += here
    return sorted(ranks, key=lambda one: (one["rank"], one["pid"]))


def add_ras_status(ranks: list[Rank], found: Mapping[int, Mapping[str, str]]) -> None:
    """Add NCCL RAS's report to the ranks of each job that has used NCCL. *found*: their environments."""
    jobs: dict[tuple[str, str], list[Rank]] = {}
    for one in ranks:
        jobs.setdefault((one.get("account", ""), one.get("job", "")), []).append(one)
    work: dict[str, list[tuple[int, Callable[[], hang_ras.Known]]]] = {}
    asked: dict[int, list[Rank]] = {}
    for (account, _), ones in jobs.items():
        used = [one for one in ones if any(e["kind"].startswith("nccl:") for e in one["entries"])]
        if used:
            pid, uid = used[0]["pid"], used[0].get("uid", -1)
            asked[pid] = ones
            reader = partial(hang_ras.read_ras_status, found[pid], pid, uid)
            work.setdefault(account, []).append((pid, reader))
    known, failed = hang_border.read_by_account(work, hang_ras.SECONDS)
    for pid, ones in asked.items():
        said, why = known.get(pid, ({}, failed.get(pid, "")))
        for one in ones:
            # in a container NCCL knows its process by the number in there
            number = hang_answer.read_inner_pid(one["pid"])
            if number in said:
                one["ras"] = said[number]
            if why and one["pid"] == pid:
                one["missing"].append({"what": "ras", "why": why})


def read_node_ranks(host: str, job: str = "") -> NodeHang:
    """Return all ranks of this node. Unreadable processes are left out."""
    found, around = FoundRanks(job), NodeEvidence()
    ranks = read_ranks(found, host, around)
    add_ras_status(ranks, {pid: env for ones in found.ranks.values() for pid, env in ones.items()})
    jobs = found.jobs()
    wanted = {job} if job else set(jobs)
    return {
        "host": host,
        "jobs": jobs,
        "ranks": ranks,
        "kernel": around.kernel,
        "launchers": [
            one for one in found.launchers if not wanted or {one["job"], one["master"]} & wanted
        ],
        "left_out": hang_border.list_left_out(found.left_out),
    }
