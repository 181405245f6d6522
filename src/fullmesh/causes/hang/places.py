"""Find a rank's main thread's line and activity, from its Python stack and kernel state."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from fullmesh.observed.hang import Frame, KernelWait, PythonThread, Rank

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


class ActivityKind(StrEnum):
    """The activity of a main thread."""

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
    HELD_LOCK = "held lock"
    PIPE = "pipe"
    SOCKET = "socket"
    CHILD = "child"
    CALL = "call"
    ENDED = "ended"
    GROUP = "group"
    PASSING = "passing"
    COLLECTIVE = "collective"
    RUNNING = "running"
    THROTTLED = "throttled"  # known from two queries only, like the next one
    SWAPPING = "swapping"


# The collector's kinds of waits in the kernel. The others (futex, sleep) have rules of their own.
KERNEL_WAITS = {
    "lock": ActivityKind.HELD_LOCK,
    "fifo": ActivityKind.PIPE,
    "pipe": ActivityKind.PIPE,
    "socket": ActivityKind.SOCKET,
    "child": ActivityKind.CHILD,
} | dict.fromkeys(
    ("device", "file", "queue", "semaphore", "signal", "event", "poll"), ActivityKind.CALL
)
# Without a Python stack, these may also be a wait in a collective: a library polls its sockets and events.
NEEDS_STACK = frozenset(("socket", "event", "poll", "device", "file"))
# A rank in one of these is not waiting for other ranks, whatever is still on its way in the background.
ELSEWHERE = frozenset(
    (
        ActivityKind.STOPPED,
        ActivityKind.DISK,
        ActivityKind.DEBUGGER,
        ActivityKind.INPUT,
        ActivityKind.CHECKPOINT,
        ActivityKind.LOADER,
        ActivityKind.GC,
        ActivityKind.SLEEP,
        ActivityKind.FILE_LOCK,
        ActivityKind.HELD_LOCK,
        ActivityKind.PIPE,
        ActivityKind.CHILD,
        ActivityKind.ENDED,
    )
)


@dataclass(frozen=True)
class ThreadActivity:
    """The activity of a rank's main thread.

    Attributes:
        kind: the kind of activity.
        place: file:line of the user's own code, or "".
        call: the torch.distributed function that it is in: ``barrier``.
        seen: the evidence, in a few words.
        elsewhere: it certainly waits for no other rank.
    """

    kind: ActivityKind
    place: str = ""
    call: str = ""
    seen: str = ""
    elsewhere: bool = False


def format_frame(frame: Frame) -> str:
    """Format a frame as ``/home/user/train.py:88``."""
    return f"{frame['file']}:{frame['line']}"


def find_own_frame(frames: Sequence[Frame]) -> int:
    """Return the index of the innermost frame in the user's own code, or the number of frames."""
    for belongs in (PACKAGES, TORCH):
        for number, frame in enumerate(frames):
            if not belongs.search(frame["file"]) and not PYTHON.search(frame["file"]):
                return number
    return len(frames)


def find_user_location(frames: Sequence[Frame]) -> str:
    """Return the line that a user should check, or "" without frames."""
    number = find_own_frame(frames)
    return format_frame(frames[number] if number < len(frames) else frames[0]) if frames else ""


def find_main_thread(rank: Rank) -> list[Frame]:
    """Return the stack of the main thread, or []."""
    threads = rank["threads"]
    return threads[0]["frames"] if threads and threads[0]["name"] == "MainThread" else []


def find_other_threads(rank: Rank) -> list[tuple[PythonThread, str]]:
    """Find the other threads that are in the user's own code, with their lines."""
    return [
        (thread, find_user_location(thread["frames"]))
        for thread in rank["threads"][1:]
        if find_own_frame(thread["frames"]) < len(thread["frames"])
    ]


def find_thread_activity(rank: Rank) -> ThreadActivity:
    """Find the activity of a rank's main thread."""
    frames = find_main_thread(rank)
    kind, seen = _classify_activity(rank, frames)
    inner = frames[: find_own_frame(frames)]
    elsewhere = kind in ELSEWHERE or (kind is ActivityKind.LOCK and _has_frame_in(LOCKS, inner))
    return ThreadActivity(
        kind, find_user_location(frames), _find_distributed_call(inner), seen, elsewhere
    )


def get_kernel_wait(rank: Rank) -> KernelWait | None:
    """Return the object that a rank's main thread waits for in a system call, if it is known."""
    return rank["native"].get("wait")


def _has_frame_in(pattern: re.Pattern[str], frames: Sequence[Frame]) -> bool:
    return any(pattern.search(frame["file"]) for frame in frames)


def _find_distributed_call(inner: Sequence[Frame]) -> str:
    """Return the outermost torch.distributed function that the user's code called."""
    names = [one["name"] for one in inner if C10D.search(one["file"]) and one["name"] != "wrapper"]
    return names[-1] if names else ""


def _classify_activity(rank: Rank, frames: list[Frame]) -> tuple[ActivityKind, str]:
    native = rank["native"]
    kernel = native["wchan"] if native["wchan"] not in ("", "0") else "the kernel"
    if native["state"] in STOPPED:
        return ActivityKind.STOPPED, f"state {native['state']}"
    wait = get_kernel_wait(rank)
    kind = wait["kind"] if wait else ""
    if native["state"] == IN_DISK and kind in ("lock", "device"):
        return KERNEL_WAITS[kind], f"state D in {kernel} ({native['syscall']})"
    if native["state"] == IN_DISK or FUSE.match(kernel):
        target = f", {native['target']}" if native["target"] else ""
        call = f" ({native['syscall']}{target})" if native["syscall"] else ""
        return ActivityKind.DISK, f"state {native['state']} in {kernel}{call}"
    collects = next((name for name in native["functions"] if COLLECTING.search(name)), "")
    if collects:
        return ActivityKind.GC, f"native call {collects}"
    if frames and not any(frame["name"] == MODULE for frame in frames):
        return ActivityKind.ENDED, f"main thread in {frames[0]['name']}, below no script"
    return _classify_python_call(rank, frames)


def _classify_python_call(rank: Rank, frames: list[Frame]) -> tuple[ActivityKind, str]:
    inner = frames[: find_own_frame(frames)]
    return _classify_torch_call(rank, inner) or _classify_kernel_call(rank, frames, inner)


def _classify_torch_call(rank: Rank, inner: Sequence[Frame]) -> tuple[ActivityKind, str] | None:
    """Classify the torch function that the user's code called, if the stack shows it."""
    if _has_frame_in(DEBUGGERS, inner):
        return ActivityKind.DEBUGGER, "a debugger's prompt"
    if made := next((one["name"] for one in inner if _is_making_group(one)), ""):
        return ActivityKind.GROUP, f"in {made}"
    if call := _find_distributed_call(inner):
        return (
            ActivityKind.PASSING if PASSES.search(call) else ActivityKind.COLLECTIVE
        ), f"in {call}"
    if _has_frame_in(CHECKPOINT, inner) or any(SAVES.search(one["name"]) for one in inner):
        how = rank["native"]["syscall"] or f"state {rank['native']['state']}"
        return ActivityKind.CHECKPOINT, f"in {inner[-1]['name']}, {how}"
    if _has_frame_in(LOADER, inner):
        return (
            ActivityKind.LOADER,
            f"in {inner[-1]['name']}, waiting for a batch from a DataLoader worker",
        )
    return (
        (ActivityKind.COLLECTIVE, f"in {inner[-1]['name']}")
        if _has_frame_in(WAITING, inner)
        else None
    )


def _classify_kernel_call(
    rank: Rank, frames: Sequence[Frame], inner: Sequence[Frame]
) -> tuple[ActivityKind, str]:
    """Classify a built-in function, which has no frame of its own, by the kernel's state."""
    native, text = rank["native"], frames[0].get("text", "") if frames else ""
    if (native["syscall"] in READS and native["fd"] == 0) or "input(" in text:
        return ActivityKind.INPUT, f"reads its standard input {native['target']}".strip()
    if held := next((one["name"] for one in inner if FILE_LOCKS.search(one["file"])), ""):
        return ActivityKind.FILE_LOCK, f"in {inner[-1]['name']}, {held} of a lock file"
    if native["syscall"] in SLEEPS:
        return ActivityKind.SLEEP, f"system call {native['syscall']}"
    if _has_frame_in(LOCKS, inner) or native["forever"]:
        return ActivityKind.LOCK, text or f"in {inner[0]['name'] if inner else native['syscall']}"
    wait = get_kernel_wait(rank)
    kind = wait["kind"] if wait else ""
    if kind in KERNEL_WAITS and (frames or kind not in NEEDS_STACK):
        return KERNEL_WAITS[kind], f"state {native['state']} in {native['syscall']}"
    return (
        (ActivityKind.RUNNING, text or f"state {native['state']}")
        if frames
        else (ActivityKind.UNKNOWN, "")
    )


def _is_making_group(frame: Frame) -> bool:
    return bool(C10D.search(frame["file"]) and MAKES_GROUPS.search(frame["name"]))
