"""Where the main thread of a rank stands and what it waits for, from its Python stack and what the kernel shows."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from fullmesh.observed.hang import Frame, Rank, Thread

# Not the user's: torch and other packages, Python itself, code without a file.
PACKAGES = re.compile(r"/(?:site|dist)-packages/")
TORCH = re.compile(r"/(?:site|dist)-packages/torch/|/torch/(?:distributed|utils|nn|autograd)/")
PYTHON = re.compile(r"/lib(?:64)?/python3\.\d+/(?!(?:site|dist)-packages/)|^<")
C10D = re.compile(r"/torch/distributed/distributed_c10d\.py$")
WAITING = re.compile(r"/torch/(?:distributed/|autograd/graph\.py$)")
CHECKPOINT = re.compile(
    r"/torch/serialization\.py$|/torch/distributed/checkpoint/|/safetensors/|/_checkpoint\.py$"
)
SAVES = re.compile(r"^_?save_(?:checkpoint|pretrained|state|model)")
LOADER = re.compile(r"/torch/utils/data/(?:dataloader\.py$|_utils/)")
LOCKS = re.compile(r"/(?:threading|queue)\.py$|/concurrent/futures/")
# Locks that are files: torch's own for what it compiles (cpp_extension), and the package that its compiler, Hugging
# Face's caches and others take.
FILE_LOCKS = re.compile(r"/torch/utils/(?:file_baton|_filelock)\.py$|/filelock/")
DEBUGGERS = re.compile(r"/(?:pdb|bdb|ipdb)(?:\.py$|/)|/IPython/")
MAKES_GROUPS = re.compile(
    r"^(?:new_group|_new_group_with_tag|new_subgroups|split_group|_store_based_barrier"
    r"|init_process_group|_new_process_group_helper)$"
)
PASSES = re.compile(r"^_?(?:send|recv|isend|irecv|batch_isend_irecv)")
NFS = re.compile(r"^_*(?:nfs|rpc_|xprt_)")
# Of a file system in user space (sshfs, JuiceFS, S3's): fs/fuse/dev.c. A signal ends that wait, so it is no D.
FUSE = re.compile(r"^_*(?:fuse_|request_wait_answer)")
COLLECTING = re.compile(r"^_?(?:Py)?gc_?(?:collect|_?Collect)|^PyGC_Collect|^deduce_unreachable")
SLEEPS = ("clock_nanosleep", "nanosleep")
READS = ("read", "readv")
MODULE = "<module>"
STOPPED, IN_DISK = ("T", "t"), "D"


class Kind(StrEnum):
    """What a main thread does."""

    UNKNOWN = "unknown"
    STOPPED = "stopped"
    DISK = "disk"
    DEBUGGER = "debugger"
    INPUT = "input"
    CHECKPOINT = "checkpoint"
    LOADER = "loader"
    GC = "gc"
    SLEEP = "sleep"
    LOCK = "lock"
    FILE_LOCK = "file lock"
    ENDED = "ended"
    GROUP = "group"
    PASSING = "passing"
    COLLECTIVE = "collective"
    RUNNING = "running"
    THROTTLED = "throttled"  # seen from two looks only, as is the next one
    SWAPPING = "swapping"


# A rank in one of these is not waiting for other ranks, whatever is still on its way in the background.
ELSEWHERE = frozenset(
    (
        Kind.STOPPED,
        Kind.DISK,
        Kind.DEBUGGER,
        Kind.INPUT,
        Kind.CHECKPOINT,
        Kind.LOADER,
        Kind.GC,
        Kind.SLEEP,
        Kind.FILE_LOCK,
        Kind.ENDED,
    )
)


@dataclass(frozen=True)
class Doing:
    """What a rank's main thread does.

    Attributes:
        place: file:line of the user's own code, "" where it is not known.
        call: torch.distributed's function that it is in: ``barrier``.
        seen: what says so, in a few words.
        elsewhere: it certainly waits for no other rank.
    """

    kind: Kind
    place: str = ""
    call: str = ""
    seen: str = ""
    elsewhere: bool = False


def at(frame: Frame) -> str:
    """``/home/user/train.py:88``."""
    return f"{frame['file']}:{frame['line']}"


def own(frames: Sequence[Frame]) -> int:
    """Where the user's own code begins, from inside; the number of frames where there is none."""
    for belongs in (PACKAGES, TORCH):
        for number, frame in enumerate(frames):
            if not belongs.search(frame["file"]) and not PYTHON.search(frame["file"]):
                return number
    return len(frames)


def place_in(frames: Sequence[Frame]) -> str:
    """The place that a user should look at, "" without frames."""
    number = own(frames)
    return at(frames[number] if number < len(frames) else frames[0]) if frames else ""


def main_thread(rank: Rank) -> list[Frame]:
    """The stack of the main thread, [] where it is not known."""
    threads = rank["threads"]
    return threads[0]["frames"] if threads and threads[0]["name"] == "MainThread" else []


def others(rank: Rank) -> list[tuple[Thread, str]]:
    """The other threads that are in the user's own code, with their places."""
    return [
        (thread, place_in(thread["frames"]))
        for thread in rank["threads"][1:]
        if own(thread["frames"]) < len(thread["frames"])
    ]


def doing(rank: Rank) -> Doing:
    """What the main thread of a rank does."""
    frames = main_thread(rank)
    kind, seen = _kind(rank, frames)
    inner = frames[: own(frames)]
    elsewhere = kind in ELSEWHERE or (kind is Kind.LOCK and _any(LOCKS, inner))
    return Doing(kind, place_in(frames), _call(inner), seen, elsewhere)


def _any(pattern: re.Pattern[str], frames: Sequence[Frame]) -> bool:
    return any(pattern.search(frame["file"]) for frame in frames)


def _call(inner: Sequence[Frame]) -> str:
    """The function of torch.distributed that the user's code called: the outermost one."""
    names = [one["name"] for one in inner if C10D.search(one["file"]) and one["name"] != "wrapper"]
    return names[-1] if names else ""


def _kind(rank: Rank, frames: list[Frame]) -> tuple[Kind, str]:
    native = rank["native"]
    kernel = native["wchan"] if native["wchan"] not in ("", "0") else "the kernel"
    if native["state"] in STOPPED:
        return Kind.STOPPED, f"state {native['state']}"
    if native["state"] == IN_DISK or FUSE.match(kernel):
        target = f", {native['target']}" if native["target"] else ""
        call = f" ({native['syscall']}{target})" if native["syscall"] else ""
        return Kind.DISK, f"state {native['state']} in {kernel}{call}"
    collects = next((name for name in native["functions"] if COLLECTING.search(name)), "")
    if collects:
        return Kind.GC, f"native call {collects}"
    if frames and not any(frame["name"] == MODULE for frame in frames):
        return Kind.ENDED, f"main thread in {frames[0]['name']}, below no script"
    return _python(rank, frames)


def _python(rank: Rank, frames: list[Frame]) -> tuple[Kind, str]:
    inner = frames[: own(frames)]
    return _in_torch(rank, inner) or _in_kernel(rank, frames, inner)


def _in_torch(rank: Rank, inner: Sequence[Frame]) -> tuple[Kind, str] | None:
    """What the user's code called, where the stack tells."""
    if _any(DEBUGGERS, inner):
        return Kind.DEBUGGER, "a debugger's prompt"
    if made := next((one["name"] for one in inner if _makes_group(one)), ""):
        return Kind.GROUP, f"in {made}"
    if call := _call(inner):
        return (Kind.PASSING if PASSES.search(call) else Kind.COLLECTIVE), f"in {call}"
    if _any(CHECKPOINT, inner) or any(SAVES.search(one["name"]) for one in inner):
        how = rank["native"]["syscall"] or f"state {rank['native']['state']}"
        return Kind.CHECKPOINT, f"in {inner[-1]['name']}, {how}"
    if _any(LOADER, inner):
        return Kind.LOADER, f"in {inner[-1]['name']}, with nothing of a worker to take"
    return (Kind.COLLECTIVE, f"in {inner[-1]['name']}") if _any(WAITING, inner) else None


def _in_kernel(rank: Rank, frames: Sequence[Frame], inner: Sequence[Frame]) -> tuple[Kind, str]:
    """What a built-in function does that has no frame of its own, where the kernel tells."""
    native, text = rank["native"], frames[0].get("text", "") if frames else ""
    if (native["syscall"] in READS and native["fd"] == 0) or "input(" in text:
        return Kind.INPUT, f"reads its standard input {native['target']}".strip()
    if held := next((one["name"] for one in inner if FILE_LOCKS.search(one["file"])), ""):
        return Kind.FILE_LOCK, f"in {inner[-1]['name']}, {held} of a lock file"
    if native["syscall"] in SLEEPS:
        return Kind.SLEEP, f"system call {native['syscall']}"
    if _any(LOCKS, inner) or native["forever"]:
        return Kind.LOCK, text or f"in {inner[0]['name'] if inner else native['syscall']}"
    return (Kind.RUNNING, text or f"state {native['state']}") if frames else (Kind.UNKNOWN, "")


def _makes_group(frame: Frame) -> bool:
    return bool(C10D.search(frame["file"]) and MAKES_GROUPS.search(frame["name"]))
