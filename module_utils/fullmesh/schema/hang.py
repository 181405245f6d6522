# Copyright (c) the Fullmesh contributors
# SPDX-License-Identifier: MIT
"""What a rank of a running job says of itself: what it entered, where it stands, what its kernel waits for.

One `Rank` is one rank at one moment. A collector writes it on the node, from inside the process (torch's Flight
Recorder, Python's stacks) and from outside (/proc); what it could not get it names in ``missing`` and leaves empty.
Stacks begin with the innermost call. Times are nanoseconds of the node's clock since 1970, 0 where they are not known.
"""

from __future__ import annotations

from typing import Literal, TypedDict


class FrameBase(TypedDict):
    """A call: where it stands, in the function ``name``."""

    file: str
    line: int
    name: str


class Frame(FrameBase, total=False):
    """``text``: the line itself, where the file could be read."""

    text: str


class RecorderEntry(TypedDict):
    """Something that a rank entered, as the Flight Recorder keeps it.

    Attributes:
        record: counts up on a rank, over all groups: the order in which it entered.
        group, desc: the process group's name (the same on all ranks) and description (``default_pg``).
        number: collective_seq_id; of a send or receive p2p_seq_id. Counts up in a group, the same on all its ranks.
        p2p: a send or receive.
        kind: profiling_name: ``gloo:all_reduce``, ``nccl:send 0->1`` (ranks within the group).
        in_sizes, out_sizes: shapes; in_dtypes, out_dtypes: ``Float``.
        state: ``scheduled``, ``started`` or ``completed``; Gloo's stay scheduled.
        retired: it came to its end, well or not.
        created_ns, started_ns, completed_ns: when it was entered, and when torch saw it start and end (NCCL).
        frames: who called it; empty where the recorder was asked without stacks.
    """

    record: int
    group: str
    desc: str
    number: int
    p2p: bool
    kind: str
    in_sizes: list[list[int]]
    in_dtypes: list[str]
    out_sizes: list[list[int]]
    out_dtypes: list[str]
    state: str
    retired: bool
    created_ns: int
    started_ns: int
    completed_ns: int
    frames: list[Frame]


class RankGroup(TypedDict):
    """A process group that the rank made; ``ranks`` are the job's numbers, empty where they are not known.

    The recorder knows them with NCCL (pg_config) and not with Gloo; torch.distributed.distributed_c10d._world does.
    """

    name: str
    desc: str
    ranks: list[int]


class PythonThread(TypedDict):
    """A thread of Python, by its name (``MainThread``)."""

    name: str
    frames: list[Frame]


class MainThreadState(TypedDict):
    """What the kernel says of the main thread.

    Attributes:
        state: the letter of /proc/PID/stat: R, S, D, T, t, Z; "" where it could not be read.
        wchan: the kernel's function that it sleeps in: ``nfs_wait_bit_killable``; "" or ``0`` where it is not shown.
        syscall: name of the system call it is in (``read``), its number where the collector has no name for it.
        fd: first argument of a call on a file, else -1; target: what that leads to: ``/dev/pts/0``, ``pipe:[7]``.
        forever: it is a futex call without a timeout. A thread that waits for the interpreter's own lock has one.
        functions: native calls, where a tool on the node could read them (py-spy, eu-stack).
    """

    state: str
    wchan: str
    syscall: str
    fd: int
    target: str
    forever: bool
    functions: list[str]


class UncaughtException(TypedDict):
    """An exception that nobody caught, as the hook in the process saw it pass: ``ValueError: no such shape``."""

    text: str
    frames: list[Frame]


class MissingPart(TypedDict):
    """What could not be got, and why."""

    what: Literal["process", "recorder", "stacks", "native", "connections", "gpus", "ras"]
    why: str


class RankConnectionBase(TypedDict):
    """A TCP connection of a rank, as its kernel knows it.

    Attributes:
        here, port, peer, peer_port: its two ends.
        unacked: bytes that were written and that the peer has not acknowledged; unread: that came and were not read.
        retransmits: how often the oldest of them was sent again in vain; 0 as soon as an answer comes.
        zero_window: the peer's kernel takes no more, since its process does not read.
        segments_out, segments_in: how many this end has sent and got, from the beginning.
    """

    here: str
    port: int
    peer: str
    peer_port: int
    unacked: int
    unread: int
    retransmits: int
    zero_window: bool
    segments_out: int
    segments_in: int


class RankConnection(RankConnectionBase, total=False):
    """And what is told where it is so.

    Attributes:
        dark: the card that has this end's address, which is down or has no carrier.
        gone: no card has this end's address any more, as some network services take it away with the carrier: the cards
            that are down or have none, whichever of them it was.
    """

    dark: str
    gone: list[str]


class CgroupLimits(TypedDict):
    """What a rank's control groups let it have.

    Attributes:
        cpus: processors, 0 where nothing limits them.
        periods: in which it ran, each some tenths of a second; throttled: those in which it had to stop before the end.
        memory_max: bytes, 0 where nothing limits them; memory: in use; oom_kills: processes killed for it.
    """

    cpus: float
    periods: int
    throttled: int
    memory: int
    memory_max: int
    oom_kills: int


class RankPaging(TypedDict):
    """Memory of a rank that is not in memory.

    Attributes:
        swapped: bytes that lie in swap (VmSwap of /proc/PID/status).
        from_disk: how many pages a disk had to bring since it began (majflt of /proc/PID/stat): swap, and files.
    """

    swapped: int
    from_disk: int


class RankGpu(TypedDict):
    """A GPU that a rank's process holds memory on.

    Attributes:
        index, uuid: as nvidia-smi has them.
        busy: percent of the last second in which a kernel ran on it, whoever's; -1 where it is not told (MIG).
        watts: what it draws, -1 where it is not told. NCCL's kernels that wait draw little at 100 %.
        memory: bytes that the process holds there, 0 where it is not told.
    """

    index: int
    uuid: str
    busy: int
    watts: int
    memory: int


class LaggingCollective(TypedDict):
    """A collective that a rank launched *count* times, and others of its communicator *most* times."""

    kind: str
    count: int
    most: int


class RasStatus(TypedDict):
    """What NCCL's RAS says of a rank; missing where it says nothing.

    Attributes:
        answers: its process answers RAS' own threads; dead: it has not for a minute.
        behind: AllReduce and the like, each counted from the start of the communicator.
    """

    answers: bool
    dead: bool
    behind: list[LaggingCollective]


class KernelLine(TypedDict):
    """A line of a node's kernel log: ``oom``, ``hung`` (a task that does not go on) or ``xid`` (NVIDIA's driver)."""

    kind: str
    at_ns: int
    pid: int
    name: str
    text: str


class LauncherBase(TypedDict):
    """A torchrun that runs: its job's name or master, and the ranks that it started; first is -1 where nobody says."""

    pid: int
    job: str
    master: str
    first: int
    count: int


class Launcher(LauncherBase, total=False):
    """With the account that it belongs to."""

    account: str


class SkippedProcesses(TypedDict):
    """Processes that say that they are ranks or launchers and are not in the answer, ``pid`` 0 if they are several."""

    account: str
    pid: int
    count: int
    why: str


class RankBase(TypedDict):
    """One rank at one moment.

    Attributes:
        rank, world: its number, and how many there are; world is 0 where it is not known.
        host, pid: where it runs; pid is 0 where it is not known.
        taken_ns: when this was taken.
        process: ``running``, ``gone``, or ``unasked``: the node did not answer, ``missing`` says why.
        exit_code: of one that is gone, where somebody knows it; below zero it is a signal, as in Python.
        groups: those that this rank made, itself in them or not.
        entries: the newest ones of every group in the order of entering. A few dozen do; the first that is not
            retired has to be among them.
        threads: the main thread first.
        raised: the exception that ended the rank's program, while its process may still be there.
    """

    rank: int
    world: int
    host: str
    pid: int
    taken_ns: int
    process: Literal["running", "gone", "unasked"]
    exit_code: int | None
    groups: list[RankGroup]
    entries: list[RecorderEntry]
    threads: list[PythonThread]
    native: MainThreadState
    raised: UncaughtException | None
    missing: list[MissingPart]


class Rank(RankBase, total=False):
    """With what the kernel tells beside that; dumps and older collectors have none of it.

    Attributes:
        connections: to other nodes, those in which something is stuck first.
        kernel: lines of its node's log that are about it or its GPUs.
        gpus: those that its process uses; missing where the node has no nvidia-smi.
        job: the name of its job, as its process was told it.
        uid, account: whose process it is, as the kernel says: of a container without root, who started that.
    """

    connections: list[RankConnection]
    limits: CgroupLimits
    paging: RankPaging
    gpus: list[RankGpu]
    ras: RasStatus
    kernel: list[KernelLine]
    job: str
    uid: int
    account: str


class NodeHangBase(TypedDict):
    """What one node answers: its ranks, by number, and the jobs that they belong to."""

    host: str
    jobs: list[str]
    ranks: list[Rank]


class NodeHang(NodeHangBase, total=False):
    """With its kernel's log and the launchers that run there: all there is of ranks that are gone.

    ``left_out``: processes that could not be read, or are more than an account may have.
    """

    kernel: list[KernelLine]
    launchers: list[Launcher]
    left_out: list[SkippedProcesses]
