# Copyright (c) the Fullmesh contributors
# SPDX-License-Identifier: MIT
"""The state of a rank of a running job: the collectives it entered, its stacks, and the call it waits in.

A `Rank` is one rank at one moment. A collector writes it on the node, from inside the process (torch's Flight Recorder,
Python's stacks) and from outside (/proc). Parts that it could not get are empty and listed in ``missing``. Stacks begin
with the innermost call. Times are nanoseconds since 1970 by the node's clock, 0 if unknown.
"""

from __future__ import annotations

from typing import Literal, TypedDict


class FrameBase(TypedDict):
    """A call: its place in the source, in the function ``name``."""

    file: str
    line: int
    name: str


class Frame(FrameBase, total=False):
    """``text``: the source line, if the file was readable."""

    text: str


class RecorderEntryBase(TypedDict):
    """An entry of the Flight Recorder: an operation that a rank entered.

    Attributes:
        record: a counter over all groups and backends of a rank: the order in which it entered.
        group, desc: the process group's name (the same on all ranks) and description (``default_pg``).
        number: collective_seq_id, or p2p_seq_id of a send or receive. Counts up in a backend of a group, the same on
            all its ranks.
        p2p: a send or receive.
        kind: profiling_name: ``gloo:all_reduce``, ``nccl:send 0->1`` (ranks within the group).
        in_sizes, out_sizes: shapes.
        in_dtypes, out_dtypes: such as ``Float``.
        state: ``scheduled``, ``started`` or ``completed``. Gloo's entries stay scheduled.
        retired: it ended, with or without success.
        created_ns, started_ns, completed_ns: when it was entered, and when torch saw it start and end (NCCL).
        frames: the callers, empty if the recorder was queried without stacks.
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


class RecorderEntry(RecorderEntryBase, total=False):
    """``duration_us``: how long its GPU was in it, with NCCL and TORCH_NCCL_ENABLE_TIMING=1."""

    duration_us: int


class GroupArrivalsBase(TypedDict):
    """When a rank entered the newest collectives of a group in which all ranks wait for all, the newest first.

    Without broadcasts and other collectives of one root, and without sends and receives.

    Attributes:
        group, backend: of the collectives.
        numbers: of the collectives.
        created_us: when the first of them was entered, in microseconds since 1970.
        gaps_us: how much earlier each of the others was entered than the one before it in this list.
    """

    group: str
    backend: str
    numbers: list[int]
    created_us: int
    gaps_us: list[int]


class GroupArrivals(GroupArrivalsBase, total=False):
    """``durations_us``: how long the GPU was in each of them, -1 if unknown. Missing if none is known."""

    durations_us: list[int]


class ClockReading(TypedDict):
    """A node's clock, compared with the controller's.

    Attributes:
        ahead_ns: its lead, less the time that a message takes from there, which is about the same on all nodes.
        doubt_ns: how much the lead differs between the two best measurements.
    """

    ahead_ns: int
    doubt_ns: int


class NodeCpu(TypedDict):
    """CPU time of a node since its start in ticks, and the part that its hypervisor gave to other machines."""

    ticks: int
    stolen: int


class RankGroup(TypedDict):
    """A process group that the rank made.

    ``ranks`` are global ranks, empty if unknown.

    With NCCL the recorder knows them (pg_config). With Gloo only torch.distributed.distributed_c10d._world does.
    """

    name: str
    desc: str
    ranks: list[int]


class PythonThread(TypedDict):
    """A thread of Python, by its name (``MainThread``)."""

    name: str
    frames: list[Frame]


class WaitParty(TypedDict):
    """A process that could end the wait of a thread.

    Attributes:
        command: the start of its command line, without secrets.
        state: the letter in /proc/PID/stat, "" if it has ended.
        doing: the reason why it does not end the wait, as far as known: ``stopped``, ``in futex``.
    """

    pid: int
    command: str
    state: str
    doing: str


class KernelWait(TypedDict):
    """The object that a sleeping thread waits for in a system call.

    Attributes:
        kind: ``lock`` of a file, ``fifo``, ``pipe``, ``socket``, ``child``, ``device``, ``file``, ``queue``,
            ``semaphore``, ``futex``, ``signal``, ``sleep``, ``event``, or ``poll`` for objects of several kinds.
        call: the system call.
        target: the object: a path, an address with port, the number of a process.
        text: the object and the processes in words, as in "waits for TEXT".
        parties: the processes that could end the wait: the holder of the lock, the other end, the child.
    """

    kind: str
    call: str
    target: str
    text: str
    parties: list[WaitParty]


class MainThreadStateBase(TypedDict):
    """The kernel's state of the main thread.

    Attributes:
        state: the letter in /proc/PID/stat: R, S, D, T, t, Z, or "" if unreadable.
        wchan: the kernel function that it sleeps in, such as ``nfs_wait_bit_killable``. "" or ``0`` if not shown.
        syscall: the name of its present system call (``read``), or the number if the collector has no name for it.
        fd: the first argument of a call on a file, else -1.
        target: the file of this descriptor: ``/dev/pts/0``, ``pipe:[7]``.
        forever: a futex call without a timeout. A thread that waits for the interpreter's lock has one.
        functions: native calls, if a tool on the node could read them (py-spy, eu-stack).
    """

    state: str
    wchan: str
    syscall: str
    fd: int
    target: str
    forever: bool
    functions: list[str]


class MainThreadState(MainThreadStateBase, total=False):
    """Optional parts of the main thread's state.

    Attributes:
        wait: missing if it does not sleep in a known system call.
        thread_cpu, process_cpu: CPU seconds of the main thread and of the whole process, -1 if unreadable.
        queued: seconds in which the main thread was ready and other threads had the CPUs, -1 if unknown.
    """

    wait: KernelWait
    thread_cpu: float
    process_cpu: float
    queued: float


class UncaughtException(TypedDict):
    """An uncaught exception, as the hook in the process recorded it: ``ValueError: no such shape``."""

    text: str
    frames: list[Frame]


class MissingPart(TypedDict):
    """A part that could not be collected, and the reason."""

    what: Literal["process", "recorder", "stacks", "native", "connections", "gpus", "ras"]
    why: str


class RankConnectionBase(TypedDict):
    """A TCP connection of a rank, as its kernel knows it.

    Attributes:
        here, port, peer, peer_port: its two ends.
        unacked: bytes that were written and not acknowledged by the peer.
        unread: bytes that were received and not read.
        retransmits: how often the oldest of them was resent in vain, 0 as soon as an answer comes.
        zero_window: the peer's kernel accepts no more, since its process does not read.
        segments_out, segments_in: how many this end has sent and received since the start.
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
    """Optional parts of a connection.

    Attributes:
        dark: the interface of this end's address, if it is down or has no carrier.
        gone: if no interface has this end's address (some network services remove it with the carrier): all interfaces
            that are down or have no carrier.
        resent: segments that this end has sent again since the start.
    """

    dark: str
    gone: list[str]
    resent: int


class CgroupLimits(TypedDict):
    """The limits of a rank's control groups.

    Attributes:
        cpus: the CPU limit, 0 without one.
        periods: the periods it ran in, each some tenths of a second.
        throttled: the periods in which it was stopped early.
        memory_max: bytes, 0 without a limit.
        memory: bytes in use.
        oom_kills: processes killed because of the limit.
    """

    cpus: float
    periods: int
    throttled: int
    memory: int
    memory_max: int
    oom_kills: int


class RankPaging(TypedDict):
    """Memory pages of a rank that are not in RAM.

    Attributes:
        swapped: bytes in swap (VmSwap of /proc/PID/status).
        from_disk: pages read from a disk since its start (majflt of /proc/PID/stat), for swap and files.
    """

    swapped: int
    from_disk: int


class RankGpuBase(TypedDict):
    """A GPU on which a rank's process has memory.

    Attributes:
        index, uuid: as in nvidia-smi.
        busy: percent of the last second in which a kernel of any process ran on it, -1 if unknown (MIG).
        watts: the power draw, -1 if unknown. Waiting NCCL kernels draw little power at 100 %.
        memory: bytes of the process, 0 if unknown.
    """

    index: int
    uuid: str
    busy: int
    watts: int
    memory: int


class RankGpu(RankGpuBase, total=False):
    """Optional parts of a GPU. Numbers are -1 if unknown, and missing if the driver does not report them.

    Attributes:
        clock, clock_most: MHz of the SMs, now and at most.
        slowed_by: the driver's reasons for a reduced clock, as bits of nvml.h.
        lanes, lanes_most: PCIe lanes, now and at most.
        others: other processes with memory on this GPU.
    """

    clock: int
    clock_most: int
    slowed_by: int
    lanes: int
    lanes_most: int
    others: list[int]


class RdmaPortState(TypedDict):
    """The state of an RDMA port that may change during a job.

    Attributes:
        gids: index -> GID, of RoCE v2 only.
        errors: the error counters that its driver has (hw_counters). ``now`` has those of lost packets of its NIC, too.
    """

    gids: dict[str, str]
    errors: dict[str, int]


class RankRdmaPortBase(TypedDict):
    """A port of an RDMA device that a rank has open.

    Attributes:
        port: ``mlx5_0:1``.
        interface: its network interface, "" if unknown.
        state: ``ACTIVE``, ``DOWN`` …
        now: its state.
    """

    port: str
    interface: str
    state: str
    now: RdmaPortState


class RankRdmaPort(RankRdmaPortBase, total=False):
    """Optional parts of a port.

    Attributes:
        start: its state when the rank started, as the hook in the rank read it.
        rail: the rail of one of its addresses. The controller adds it.
    """

    start: RdmaPortState
    rail: str


class LaggingCollective(TypedDict):
    """A collective that a rank launched *count* times, and other ranks of its communicator *most* times."""

    kind: str
    count: int
    most: int


class RasStatus(TypedDict):
    """NCCL RAS's report on a rank.

    Missing without one.

    Attributes:
        answers: the process answers RAS threads.
        dead: it has not answered for a minute.
        behind: AllReduce and other operations, each counted from the start of the communicator.
    """

    answers: bool
    dead: bool
    behind: list[LaggingCollective]


class KernelLine(TypedDict):
    """A line of a node's kernel log: ``oom``, ``hung`` (a hung task) or ``xid`` (NVIDIA's driver)."""

    kind: str
    at_ns: int
    pid: int
    name: str
    text: str


class LauncherBase(TypedDict):
    """A running torchrun: its job's name or master, and the ranks that it started. ``first`` is -1 if unknown."""

    pid: int
    job: str
    master: str
    first: int
    count: int


class Launcher(LauncherBase, total=False):
    """A launcher with its account."""

    account: str


class SkippedProcesses(TypedDict):
    """Processes that claim to be ranks or launchers and are not in the answer. ``pid`` is 0 for several."""

    account: str
    pid: int
    count: int
    why: str


class RankBase(TypedDict):
    """One rank at one moment.

    Attributes:
        rank: its number.
        world: the world size, 0 if unknown.
        host: its node.
        pid: its process, 0 if unknown.
        taken_ns: the time of this record.
        process: ``running``, ``gone``, or ``unasked``: the node did not answer, ``missing`` has the reason.
        exit_code: of a process that is gone, if known. Below 0 it is a signal, as in Python.
        groups: that this rank made, even if it is not a member.
        entries: the newest ones of every group in the order of entering. A few dozen are enough. The first one that is
            not retired has to be among them.
        threads: the main thread first.
        raised: the exception that ended the rank's program, while its process may still exist.
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
    """Further data from the kernel.

    Dumps and older collectors do not have them.

    Attributes:
        connections: to other nodes, stalled ones first.
        kernel: lines of its node's log about it or its GPUs.
        gpus: that its process uses. Missing if the node has no nvidia-smi.
        job: the name of its job, from its environment.
        uid, account: the process's owner. For a rootless container, the user who started it.
        arrivals: the newest group and backend first.
        clock: of its node. Missing if it could not be compared with the controller's.
        node_cpu: of its node.
        full_collections: Python's garbage collections of all objects since its start, -1 if unknown.
        rdma: the RDMA ports that it uses. Missing if it uses none.
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
    arrivals: list[GroupArrivals]
    clock: ClockReading
    node_cpu: NodeCpu
    full_collections: int
    rdma: list[RankRdmaPort]


class NodeHangBase(TypedDict):
    """One node's answer: its ranks, by number, and their jobs."""

    host: str
    jobs: list[str]
    ranks: list[Rank]


class NodeHang(NodeHangBase, total=False):
    """A node's answer with its kernel's log and its launchers, which is all that is left of ended ranks.

    ``left_out``: processes that could not be read, or exceed an account's limit.
    """

    kernel: list[KernelLine]
    launchers: list[Launcher]
    left_out: list[SkippedProcesses]
