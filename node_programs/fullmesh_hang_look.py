# Copyright (c) the Fullmesh contributors
# SPDX-License-Identifier: MIT
"""Where the ranks on this node stand: what they say themselves (fullmesh_hook.py), and what the kernel says of them.

Nothing is changed in the job. Who asks is root or the job's own account; of other accounts' jobs nothing is seen.

Longer than other files: what a rank says and what the kernel says of it are put together rank by rank.
"""

from __future__ import annotations

import json
import os
import shutil
import socket
import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import fullmesh_hang_evidence as evidence
import fullmesh_hang_ras as ras
import fullmesh_watch_look as look

if TYPE_CHECKING:
    from typing import Any

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
        Thread,
    )

NAME = "\0fullmesh-hang-"
ANSWER_SECONDS = 2.0
AT_ONCE = 32
NEWEST = 8  # entries of a group, beside all that have not come to their end
MOST = 40
LONGEST = 8 << 20  # bytes of an answer: 2,000 entries are about 1.5 MB
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
    if len(words) < WORDS or not words[0].isdigit():
        return found
    number = int(words[0])
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


def inner_pid(pid: int) -> int:
    """The number that a process has for itself: another one in a container (NSpid, proc_pid_status(5))."""
    for line in look.read(f"/proc/{pid}/status").splitlines():
        if line.startswith(b"NSpid:"):
            return int(line.split()[-1])
    return pid


# --- from inside ------------------------------------------------------------------------------------


def ask(pid: int) -> tuple[dict[str, Any], bytes]:
    """What a process says of itself: its header and torch's record.

    Raises:
        OSError: nobody answers, or somebody else does.
    """
    end = time.monotonic() + ANSWER_SECONDS
    raw = b""
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(ANSWER_SECONDS)
        connection.connect(NAME + str(inner_pid(pid)))
        credentials = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12)
        if int.from_bytes(credentials[:4], "little" if os.uname()[4] != "s390x" else "big") != pid:
            raise OSError("another process has taken its name")
        while len(raw) <= LONGEST:
            connection.settimeout(max(end - time.monotonic(), 0.01))
            part = connection.recv(1 << 16)
            if not part:
                break
            raw += part
    head, _, record = raw.partition(b"\n")
    try:
        header = json.loads(head)
    except ValueError:
        raise OSError("its answer was cut off") from None
    if not isinstance(header, dict):
        raise OSError("its answer is none")
    return header, record


def number(value: object) -> int:
    """A whole number of torch's record, which has some as text and some not at all."""
    return int(value) if isinstance(value, (int, str)) and str(value).lstrip("-").isdigit() else 0


def entry(raw: dict[str, Any]) -> Entry:
    """One entry in our words."""
    group = raw.get("process_group") or [str(raw.get("pg_id", "")), ""]
    p2p = raw.get("is_p2p") is True
    return {
        "record": number(raw.get("record_id")),
        "group": str(group[0]),
        "desc": str(group[1]),
        "number": number(raw.get("p2p_seq_id" if p2p else "collective_seq_id")),
        "p2p": p2p,
        "kind": str(raw.get("profiling_name", "")),
        "in_sizes": raw.get("input_sizes") or [],
        "in_dtypes": raw.get("input_dtypes") or [],
        "out_sizes": raw.get("output_sizes") or [],
        "out_dtypes": raw.get("output_dtypes") or [],
        "state": str(raw.get("state", "")),
        "retired": raw.get("retired") is True,
        "created_ns": number(raw.get("time_created_ns")),
        "started_ns": number(raw.get("time_discovered_started_ns")),
        "completed_ns": number(raw.get("time_discovered_completed_ns")),
        "frames": [],
    }


def chosen(entries: list[Entry]) -> list[Entry]:
    """The newest of every group, and what has not come to its end: the first of these is what a rank waits in."""
    kept: dict[int, Entry] = {}
    count: dict[str, int] = {}
    for one in sorted(entries, key=lambda one: -one["record"]):
        count[one["group"]] = count.get(one["group"], 0) + 1
        if count[one["group"]] <= NEWEST:
            kept[one["record"]] = one
    for one in [one for one in entries if not one["retired"]][: MOST - len(kept)]:
        kept[one["record"]] = one
    return [kept[record] for record in sorted(kept)]


def recorded(raw: bytes) -> list[Entry]:
    """What torch's record holds.

    Raises:
        ValueError: it is none.
    """
    try:
        return chosen([entry(one) for one in json.loads(raw).get("entries") or []])
    except (AttributeError, TypeError, IndexError) as exc:
        raise ValueError(f"the record has another form: {exc}") from None


def pyspy(pid: int) -> list[Thread]:
    """Python's stacks by py-spy, where it is installed; nothing else."""
    path = shutil.which("py-spy")
    text = look.ask(path, "dump", "--nonblocking", "--json", "--pid", str(pid)) if path else ""
    try:
        told = json.loads(text or "[]")
        return [
            {
                "name": str(one.get("thread_name") or ""),
                "frames": [
                    {"file": str(f["filename"]), "line": int(f["line"]), "name": str(f["name"])}
                    for f in one["frames"]
                ],
            }
            for one in told
        ]
    except (ValueError, KeyError, TypeError, AttributeError):
        return []


# --- the ranks of this node -------------------------------------------------------------------------


def environment(pid: int) -> dict[str, str]:
    """What of a process' environment says which rank of which job it is."""
    wanted = {*look.TOLD, *JOB}
    found = {}
    for pair in look.read(f"/proc/{pid}/environ").split(b"\0"):
        key, equals, value = pair.partition(b"=")
        if equals and key.decode("utf-8", "replace") in wanted:
            found[key.decode()] = value.decode("utf-8", "replace")
    return found


def place(env: dict[str, str]) -> tuple[int, int]:
    """Rank and world size that a process was told; -1 where it is none."""
    for names in (("RANK", "WORLD_SIZE"), *look.RANKS):
        if env.get(names[0], "").isdigit():
            return int(env[names[0]]), number(env.get(names[1], ""))
    return -1, 0


def job_of(env: dict[str, str]) -> str:
    """A name for the job that all its ranks have."""
    known = [env[name] for name in JOB if env.get(name) and env[name] != NO_NAME]
    return (
        known[0]
        if known
        else "{}:{}".format(env.get("MASTER_ADDR", ""), env.get("MASTER_PORT", ""))
    )


def candidates(job: str) -> dict[int, dict[str, str]]:
    """The processes that were told a rank: pid -> environment. A rank's own children are left out."""
    parents = look.parents()
    told = {pid: environment(pid) for pid in parents if pid != os.getpid() and is_python(pid)}
    ranks = {pid: env for pid, env in told.items() if place(env)[0] >= 0}
    if job:
        ranks = {pid: env for pid, env in ranks.items() if job_of(env) == job}
    if any("RANK" in env for env in ranks.values()):
        # torchrun's agent below srun has Slurm's number, and its ranks have their own
        ranks = {pid: env for pid, env in ranks.items() if "RANK" in env}
    return {
        pid: env for pid, env in ranks.items() if place(ranks.get(parents[pid], {})) != place(env)
    }


def is_python(pid: int) -> bool:
    """Whether a process is Python: a shell or a launcher between is no rank."""
    try:
        return os.path.basename(os.readlink(f"/proc/{pid}/exe")).startswith(("python", "pypy"))
    except OSError:
        return False


class Around:
    """What is read once for all ranks of a node."""

    def __init__(self, *, gpus: bool = True) -> None:
        """Ask the kernel, and the GPUs' driver, which may take a second."""
        self.kernel: list[KernelLine] = evidence.kernel()
        self.connections: dict[str, Connection] = {}
        self.why = self.no_gpus = ""
        self.gpus: dict[int, list[Gpu]] | None = None
        try:
            self.gpus = evidence.gpus() if gpus else None
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


def rank_at(pid: int, env: dict[str, str], host: str, around: Around, *, spy: bool = True) -> Rank:
    """One rank: what it says, and what is seen of it; *spy*: by py-spy as well, where it says nothing."""
    rank, world = place(env)
    missing: list[Missing] = []
    entries: list[Entry] = []
    header: dict[str, Any] = {}
    try:
        header, record = ask(pid)
        if header["why"]:
            missing.append({"what": "recorder", "why": header["why"]})
        else:
            entries = recorded(record)
    except (OSError, ValueError, KeyError) as exc:
        gone = not state_of(pid)
        why = "it has ended" if gone else f"its process does not answer: {exc}"
        if isinstance(exc, ConnectionRefusedError):
            why = "it was not started by a launcher of ours, with the hook"
        missing.append({"what": "recorder", "why": why})
    threads = header.get("threads") or (pyspy(pid) if spy else [])
    if not threads:
        missing.append({"what": "stacks", "why": missing[-1]["why"] if missing else "it says none"})
    seen = native(pid)
    found: Rank = {
        "rank": header["rank"] if header.get("rank", -1) >= 0 else rank,
        "world": header.get("world") or world,
        "host": host,
        "pid": pid,
        "taken_ns": time.time_ns(),
        "process": "running" if seen["state"] not in ("", "Z", "X") else "gone",
        "exit_code": None,
        "groups": header.get("groups", []),
        "entries": entries,
        "threads": threads,
        "native": seen,
        "raised": header.get("raised"),
        "missing": missing,
    }
    around.add_to(found, pid)
    return found


def launchers(jobs: list[str]) -> list[Launcher]:
    """The launchers on this node that started one of these jobs, or any where no rank of a job is left here."""
    found = evidence.launchers(list(look.parents()))
    return [one for one in found if not jobs or {one["job"], one["master"]} & set(jobs)]


def ask_ras(ranks: list[Rank], found: dict[int, dict[str, str]]) -> None:
    """Add what NCCL's own watch says, where a rank has used NCCL."""
    those = [one for one in ranks if any(e["kind"].startswith("nccl:") for e in one["entries"])]
    if not those:
        return
    said, why = ras.known(found[those[0]["pid"]])
    for one in ranks:
        # in a container NCCL knows its process by the number in there
        number = inner_pid(one["pid"])
        if number in said:
            one["ras"] = said[number]
    if why:
        those[0]["missing"].append({"what": "ras", "why": why})


def node(host: str, job: str = "") -> NodeHang:
    """All ranks of this node, asked side by side: one that stands still must not keep the others waiting."""
    found, around = candidates(job), Around()
    with ThreadPoolExecutor(AT_ONCE) as pool:
        ranks = list(
            pool.map(lambda one: rank_at(one[0], one[1], host, around), sorted(found.items()))
        )
    ask_ras(ranks, found)
    jobs = sorted({job_of(env) for env in found.values()})
    return {
        "host": host,
        "jobs": jobs,
        "ranks": sorted(ranks, key=lambda one: one["rank"]),
        "kernel": around.kernel,
        "launchers": launchers([job] if job else jobs),
    }
