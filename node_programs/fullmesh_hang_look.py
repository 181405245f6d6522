# Copyright (c) the Fullmesh contributors
# SPDX-License-Identifier: MIT
"""Where the ranks on this node stand: what they say themselves (fullmesh_hook.py), and what the kernel says of them.

Nothing is changed in the job. Who asks is root or the job's own account; of other accounts' jobs nothing is seen.

Longer than other files: what a rank says and what the kernel says of it are put together rank by rank.
"""

from __future__ import annotations

import os
import time
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import fullmesh_hang_answer as answer
import fullmesh_hang_border as border
import fullmesh_hang_evidence as evidence
import fullmesh_hang_ras as ras
import fullmesh_watch_look as look
from fullmesh_foreign_text import parse_decimal
from fullmesh_hang_border import ForeignProcessError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from fullmesh.observed.hang import (
        Connection,
        Entry,
        Gpu,
        KernelLine,
        Launcher,
        Missing,
        Native,
        NodeHang,
        Rank,
    )

FIND_SECONDS = 3.0  # for the environments and command lines of all processes
READ_SECONDS = 5.0  # for the answers of all ranks
JOB = ("TORCHELASTIC_RUN_ID", "SLURM_JOB_ID", "OMPI_MCA_ess_base_jobid")
NO_NAME = "none"  # what torchrun calls every job that was given no --rdzv-id
# x86_64 and aarch64 have numbers of their own (asm/unistd_64.h, asm-generic/unistd.h); others are told by number.
X86 = {
    0: "read",
    1: "write",
    3: "close",
    7: "poll",
    17: "pread64",
    18: "pwrite64",
    20: "writev",
    23: "select",
}
X86 |= {
    34: "pause",
    35: "nanosleep",
    42: "connect",
    44: "sendto",
    45: "recvfrom",
    47: "recvmsg",
    61: "wait4",
}
X86 |= {
    74: "fsync",
    202: "futex",
    230: "clock_nanosleep",
    232: "epoll_wait",
    247: "waitid",
    257: "openat",
}
X86 |= {262: "newfstatat", 270: "pselect6", 271: "ppoll", 281: "epoll_pwait"}
ARM = {
    22: "epoll_pwait",
    56: "openat",
    57: "close",
    63: "read",
    64: "write",
    67: "pread64",
    68: "pwrite64",
}
ARM |= {
    72: "pselect6",
    73: "ppoll",
    79: "newfstatat",
    82: "fsync",
    95: "waitid",
    98: "futex",
    101: "nanosleep",
}
ARM |= {
    115: "clock_nanosleep",
    203: "connect",
    206: "sendto",
    207: "recvfrom",
    212: "recvmsg",
    260: "wait4",
}
CALLS = {"x86_64": X86, "aarch64": ARM}.get(os.uname()[4], {})
ON_FILES = frozenset(["read", "write", "pread64", "pwrite64", "writev", "fsync", "close"])
WORDS = 3  # of /proc/PID/syscall, where the process is in a call at all
NOTHING: Native = {
    "state": "",
    "wchan": "",
    "syscall": "",
    "fd": -1,
    "target": "",
    "forever": False,
    "functions": [],
}


# --- from outside -----------------------------------------------------------------------------------


def state_of(pid: int) -> str:
    """The letter of /proc/PID/stat; nothing where the process has ended."""
    rest = look.read(f"/proc/{pid}/stat").rpartition(b")")[2].split()
    return rest[0].decode() if rest else ""


def native(pid: int) -> Native:
    """The main thread, as the kernel shows it (proc_pid_syscall(5), proc_pid_wchan(5))."""
    found: Native = {**NOTHING, "state": state_of(pid)}
    found["wchan"] = look.read(f"/proc/{pid}/wchan").decode("utf-8", "replace").strip()
    words = look.read(f"/proc/{pid}/syscall").decode("ascii", "replace").split()
    number = parse_decimal(words[0]) if len(words) >= WORDS else None
    if number is None:
        return found
    name = found["syscall"] = CALLS.get(number, str(number))
    if name in ON_FILES:
        found["fd"] = int(words[1], 16)
        try:
            found["target"] = os.readlink("/proc/{}/fd/{}".format(pid, found["fd"]))
        except OSError:
            found["target"] = ""
    # its fourth argument is the timeout (futex(2))
    found["forever"] = name == "futex" and int(words[4], 16) == 0
    return found


# --- the ranks of this node -------------------------------------------------------------------------


def read_environment(pid: int) -> dict[str, str]:
    """Return the variables of a process that say which rank of which job it is, and where NCCL's RAS is."""
    wanted = {*look.TOLD, *JOB, *ras.VARIABLES}
    found = {}
    for pair in look.read(f"/proc/{pid}/environ", border.MOST_ENVIRONMENT).split(b"\0"):
        key, equals, value = pair.partition(b"=")
        if equals and key.decode("utf-8", "replace") in wanted:
            found[key.decode()] = value.decode("utf-8", "replace")
    return found


def place(env: Mapping[str, str]) -> tuple[int, int]:
    """Return the rank and the world size that a process was told; -1 if it was told none.

    Raises:
        ForeignProcessError: it was told a number that is none, or more than any job has.
    """
    for name, size in (("RANK", "WORLD_SIZE"), *look.RANKS):
        if name not in env:
            continue
        rank = parse_decimal(env[name], border.MOST_RANKS)
        if rank is not None:
            return rank, parse_decimal(env.get(size), border.MOST_RANKS) or 0
        if size in env:
            raise ForeignProcessError(f"{name} is {env[name][:40]!r}, which is no rank")
    return -1, 0


def job_of(env: Mapping[str, str]) -> str:
    """Return a name for the job that all its ranks have."""
    known = [env[name] for name in JOB if env.get(name) and env[name] != NO_NAME]
    master = "{}:{}".format(env.get("MASTER_ADDR", ""), env.get("MASTER_PORT", ""))
    return (known[0] if known else master)[: border.LONGEST_NAME]


class Told(NamedTuple):
    """What a process says that it is: a rank, by its environment, or a launcher; neither if both are empty."""

    env: dict[str, str]
    launcher: Launcher | None


def read_process(pid: int) -> Told:
    """Return what a process says that it is.

    Raises:
        ForeignProcessError: it is a rank or a launcher with numbers that cannot be.
    """
    if pid == os.getpid() or not is_python(pid):
        return Told({}, None)
    env = read_environment(pid)
    return Told(env if place(env)[0] >= 0 else {}, evidence.read_launcher(pid))


class Found:
    """The ranks and launchers on this node by account, and the processes that are left out."""

    def __init__(self, job: str, pids: Iterable[int] | None = None) -> None:
        """Look for them: in all processes, or in some."""
        self.parents = look.parents()
        here = self.parents if pids is None else set(pids) & self.parents.keys()
        by_account = border.Accounts().sort(here)
        work = {
            account: [(pid, partial(read_process, pid)) for pid in ones]
            for account, ones in by_account.items()
        }
        told, failed = border.read_in_turn(work, FIND_SECONDS)
        self.ranks: dict[str, dict[int, dict[str, str]]] = {}
        self.launchers: list[Launcher] = []
        self.left_out: dict[str, list[tuple[int, str]]] = {}
        for account, ones in by_account.items():
            bad = [(pid, failed[pid]) for pid in ones if pid in failed]
            mine = {pid: told[pid] for pid in ones if pid in told}
            for one in mine.values():
                if one.launcher is not None:
                    self.launchers.append({**one.launcher, "account": account})
            ranks = self.choose_ranks({pid: one.env for pid, one in mine.items() if one.env}, job)
            text = f"its account has more than {border.MOST_OF_ACCOUNT} ranks on this node"
            bad += [(pid, text) for pid in ranks[border.MOST_OF_ACCOUNT :]]
            if bad:
                self.left_out[account] = bad
            if ranks:
                self.ranks[account] = {
                    pid: mine[pid].env for pid in ranks[: border.MOST_OF_ACCOUNT]
                }

    def choose_ranks(self, ranks: dict[int, dict[str, str]], job: str) -> list[int]:
        """Choose an account's ranks among the processes that were told a rank: not a rank's own children."""
        if job:
            ranks = {pid: env for pid, env in ranks.items() if job_of(env) == job}
        if any("RANK" in env for env in ranks.values()):
            # torchrun's agent below srun has Slurm's number, and its ranks have their own
            ranks = {pid: env for pid, env in ranks.items() if "RANK" in env}
        return [
            pid
            for pid, env in sorted(ranks.items())
            if place(ranks.get(self.parents[pid], {})) != place(env)
        ]

    def jobs(self) -> list[str]:
        """Name the jobs."""
        return sorted({job_of(env) for ones in self.ranks.values() for env in ones.values()})


def is_python(pid: int) -> bool:
    """Whether a process is Python: a shell or a launcher between is no rank."""
    try:
        return os.path.basename(os.readlink(f"/proc/{pid}/exe")).startswith(("python", "pypy"))
    except OSError:
        return False


class Around:
    """What is read once for all ranks of a node."""

    def __init__(self, *, thorough: bool = True) -> None:
        """Ask the kernel; *thorough*: the GPUs' driver as well, and py-spy about ranks that do not answer."""
        self.thorough = thorough
        self.kernel: list[KernelLine] = evidence.kernel()
        self.connections: dict[str, Connection] = {}
        self.why = self.no_gpus = ""
        self.gpus: dict[int, list[Gpu]] | None = None
        try:
            self.gpus = evidence.gpus() if thorough else None
        except OSError as exc:
            self.no_gpus = str(exc)
        try:
            self.connections = evidence.connections()
        except OSError as exc:
            self.why = f"the kernel does not tell them: {exc}"

    def add_to(self, rank: Rank, pid: int) -> None:
        """What of it is about one rank."""
        why = "it is in another network" if evidence.elsewhere(pid) else self.why
        if why:
            rank["missing"].append({"what": "connections", "why": why})
        else:
            rank["connections"] = evidence.of_process(pid, self.connections)
        rank["limits"] = evidence.limits(pid)
        rank["paging"] = evidence.paging(pid)
        if self.no_gpus:
            rank["missing"].append({"what": "gpus", "why": self.no_gpus})
        elif self.gpus is not None:
            rank["gpus"] = self.gpus.get(pid, [])
        rank["kernel"] = [one for one in self.kernel if one["pid"] == pid or one["kind"] == "xid"]


def explain_silence(pid: int, error: Exception) -> str:
    """Say why a process does not say where it is."""
    if not state_of(pid):
        return "it has ended"
    if isinstance(error, ConnectionRefusedError):
        return "it was not started by a launcher of Fullmesh, with the hook"
    uid = os.geteuid()
    if not border.is_known_to(pid, uid):
        return (
            f"its user namespace does not map the account that asks (uid {uid}), as in a rootless container. "
            "Ask as the account that started it: sudo -u ACCOUNT fullmesh-hang"
        )
    return f"its process does not answer: {border.reason(error)}"


def ask_rank(
    pid: int, share: border.Share | None
) -> tuple[answer.RankAnswer, list[Entry], list[Missing]]:
    """Return what a rank says of itself, and why something of it is missing."""
    header = answer.NOTHING
    try:
        header, record = answer.ask_rank(pid, share)
        if header["why"]:
            return header, [], [{"what": "recorder", "why": header["why"]}]
        return header, answer.read_record(record), []
    except (OSError, ValueError) as error:
        return header, [], [{"what": "recorder", "why": explain_silence(pid, error)}]


def read_rank(
    pid: int,
    env: Mapping[str, str],
    host: str,
    around: Around,
    share: border.Share | None = None,
) -> Rank:
    """Return one rank: what it says, and what is seen of it."""
    rank, world = place(env)
    header, entries, missing = ask_rank(pid, share)
    threads = header["threads"]
    if not threads and around.thorough:
        threads = answer.dump_stacks(pid)
    if not threads:
        missing.append({"what": "stacks", "why": missing[-1]["why"] if missing else "it says none"})
    seen = native(pid)
    found: Rank = {
        **unread(pid, env, host, ""),
        "rank": header["rank"] if header["rank"] >= 0 else rank,
        "world": header["world"] or world,
        "process": "running" if seen["state"] not in ("", "Z", "X") else "gone",
        "groups": header["groups"],
        "entries": entries,
        "threads": threads,
        "native": seen,
        "raised": header["raised"],
        "missing": missing,
    }
    around.add_to(found, pid)
    return found


def unread(pid: int, env: Mapping[str, str], host: str, why: str) -> Rank:
    """Return a rank of which no more is known than that its process is there."""
    rank, world = place(env)
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
        "job": job_of(env),
        "uid": border.uid_of(pid),
    }


def read_ranks(found: Found, host: str, around: Around) -> list[Rank]:
    """Read all ranks at the same time: one that stands still must not keep the others waiting."""
    work: dict[str, list[tuple[int, Callable[[], Rank]]]] = {}
    for account, ones in found.ranks.items():
        share = border.Share()
        work[account] = [
            (pid, partial(read_rank, pid, env, host, around, share=share))
            for pid, env in ones.items()
        ]
    read, failed = border.read_in_turn(work, READ_SECONDS)
    ranks: list[Rank] = []
    for account, ones in found.ranks.items():
        here = []
        for pid, env in ones.items():
            why = f"it could not be read: {failed[pid]}" if pid in failed else ""
            here.append(unread(pid, env, host, why) if why else read[pid])
            here[-1]["account"] = account
        border.keep_share(here, border.MOST_OF_NODE // len(found.ranks))
        ranks += here
    return sorted(ranks, key=lambda one: (one["rank"], one["pid"]))


def ask_ras(ranks: list[Rank], found: Mapping[int, Mapping[str, str]]) -> None:
    """Add what NCCL's own watch says to the ranks of each job that has used NCCL; *found*: their environments."""
    jobs: dict[tuple[str, str], list[Rank]] = {}
    for one in ranks:
        jobs.setdefault((one.get("account", ""), one.get("job", "")), []).append(one)
    work: dict[str, list[tuple[int, Callable[[], ras.Known]]]] = {}
    asked: dict[int, list[Rank]] = {}
    for (account, _), ones in jobs.items():
        used = [one for one in ones if any(e["kind"].startswith("nccl:") for e in one["entries"])]
        if used:
            pid, uid = used[0]["pid"], used[0].get("uid", -1)
            asked[pid] = ones
            reader = partial(ras.read_status, found[pid], pid, uid)
            work.setdefault(account, []).append((pid, reader))
    known, failed = border.read_in_turn(work, ras.SECONDS)
    for pid, ones in asked.items():
        said, why = known.get(pid, ({}, failed.get(pid, "")))
        for one in ones:
            # in a container NCCL knows its process by the number in there
            number = answer.inner_pid(one["pid"])
            if number in said:
                one["ras"] = said[number]
            if why and one["pid"] == pid:
                one["missing"].append({"what": "ras", "why": why})


def node(host: str, job: str = "") -> NodeHang:
    """Return all ranks of this node; a process that cannot be read is left out, and the others are not."""
    found, around = Found(job), Around()
    ranks = read_ranks(found, host, around)
    ask_ras(ranks, {pid: env for ones in found.ranks.values() for pid, env in ones.items()})
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
        "left_out": border.list_left_out(found.left_out),
    }
