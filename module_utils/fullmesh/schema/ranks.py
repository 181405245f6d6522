# Copyright (c) the Fullmesh contributors
# SPDX-License-Identifier: MIT
"""What ladder_gloo returns: the end of the listeners, then what the ranks of the test job said."""

from __future__ import annotations

from typing import Any, TypedDict

from .ladder import DeferredLookups, ListenerReport
from .survey import JobVariable

# What becomes of a step: it begins, ends, is not there in this torch, gives a wrong value, or raises.
STATES = ("begin", "ok", "unsupported", "wrong", "failed")


class LadderGlooParams(TypedDict):
    """What ladder_gloo is asked for; its documentation says what each of them is."""

    run: str
    state: str
    ranks: list[int]
    python: str
    script: str
    modules: dict[str, str]
    environment: dict[str, Any]
    settings: dict[str, Any]
    deadline: int
    brief: bool
    about: dict[str, str]
    wait: float
    attached: bool
    keep: bool


class EmptyStepResult(TypedDict):
    """A step that found nothing but that it works."""


class ImportStepResult(TypedDict):
    """torch's version, and whether it has Gloo."""

    torch: str
    gloo: bool


class GroupsStepResult(TypedDict):
    """The ranks of each subgroup."""

    groups: list[list[int]]


class LatencyStepResult(TypedDict):
    """The median of the smallest all_reduce, in microseconds."""

    latency_us: float


class BandwidthStepResult(TypedDict):
    """The fastest large all_reduce: its size in MiB, seconds, and bus bandwidth as nccl-tests defines it."""

    mib: int
    seconds_best: float
    bus_gbit_s: float


class SocketsStepResult(TypedDict):
    """Where the rank listens (address, port), and how many connections it has."""

    listeners: list[tuple[str, int]]
    connections: int


class OptionalStepResult(TypedDict):
    """Whether there was anything to do, such as a GPU; all else is missing where there was not."""

    applicable: bool


class GpusStepResult(OptionalStepResult, total=False):
    """The rank's GPU: device, backend, its name and NCCL's version; *why* it has none."""

    why: str
    device: str
    backend: str
    name: str
    nccl: str


class NcclStepResult(OptionalStepResult, total=False):
    """The first collective over the GPUs.

    Attributes:
        seconds: missing until it has ended.
        said: NCCL's own lines about the network that it took.
        settings: the variables that NCCL got of those that choose a network, with their files.
        verbs: how many RDMA devices have a file in /dev; shut: those that only root may open.
    """

    seconds: float
    said: list[str]
    settings: dict[str, JobVariable]
    verbs: int
    shut: list[str]


class NcclSizeResult(TypedDict):
    """An all_reduce of so many bytes: microseconds, algorithm and bus bandwidth in Gbit/s."""

    bytes: int
    us: float
    alg_gbit_s: float
    bus_gbit_s: float


class NcclSizesStepResult(OptionalStepResult, total=False):
    """all_reduce by message size."""

    backend: str
    sizes: list[NcclSizeResult]


class NcclTestsStepResult(OptionalStepResult, total=False):
    """nccl-tests' command, exit code, and the end of what it printed."""

    command: list[str]
    code: int
    text: str


class TrainingStepResult(OptionalStepResult, total=False):
    """A training job: what it ran on, its losses and the loss of the same job in one process."""

    device: str
    backend: str
    dtype: str
    samples: int
    steps: int
    first_loss: float
    loss: float
    reference: float
    groups: list[list[int]]


# Step -> what it says when it ends well. ``import`` is no name that a class could have.
StepsSaid = TypedDict(
    "StepsSaid",
    {
        "import": ImportStepResult,
        "store": EmptyStepResult,
        "rendezvous": EmptyStepResult,
        "init": EmptyStepResult,
        "all_reduce": EmptyStepResult,
        "broadcast": EmptyStepResult,
        "all_gather": EmptyStepResult,
        "reduce_scatter": EmptyStepResult,
        "all_to_all": EmptyStepResult,
        "barrier": EmptyStepResult,
        "groups": GroupsStepResult,
        "latency": LatencyStepResult,
        "bandwidth": BandwidthStepResult,
        "sockets": SocketsStepResult,
        "gpus": GpusStepResult,
        "nccl": NcclStepResult,
        "nccl_sizes": NcclSizesStepResult,
        "nccl_tests": NcclTestsStepResult,
        "ddp": TrainingStepResult,
        "amp": TrainingStepResult,
        "subgroups": TrainingStepResult,
        "fsdp": TrainingStepResult,
        "gpu_ddp": TrainingStepResult,
        "gpu_amp": TrainingStepResult,
        "gpu_subgroups": TrainingStepResult,
        "gpu_fsdp": TrainingStepResult,
        "done": EmptyStepResult,
    },
    total=False,
)


class RankEventBase(TypedDict):
    """A line that a rank writes at the beginning and at the end of each step; ``done`` is the last. *state*: of
    STATES.
    """

    step: str
    state: str


class RankEvent(RankEventBase, total=False):
    """What a rank says of a step.

    Attributes:
        at: seconds since the rank began; seconds: how long the step took.
        text: the exception, if any; data: what the step found, of StepsSaid.
        seen, expected: values that differ; check: one word for what was checked; ranks: those at fault.
    """

    at: float
    seconds: float
    text: str
    data: dict[str, Any]
    seen: str
    expected: str
    check: str
    ranks: list[int]


class RankReport(TypedDict):
    """One rank: its events, and the end of what it printed."""

    events: list[RankEvent]
    log: str


class RanksEnd(TypedDict, total=False):
    """How the ranks of a node ended; empty while they run.

    Attributes:
        codes: exit status by rank.
        killed: ranks that a deadline ended.
        stopped: ranks that were ended because another rank, of this node or of another, had failed.
        failed_for: seconds between the first rank that failed here and the end of all of them; missing if none failed.
        seconds: from the first start to the last end.
        at: seconds from a rank's own start to its end, by rank; of those that ended by themselves.
        load: runnable processes on average over the last minute, when they had ended; cpus: processors.
        steal: share of the processors' time that the machine's owner gave to others while the ranks ran.
        throttled: share of a control group's periods in which its limit stopped the ranks.
        error: why they could not be started; its *code* and *fix*, where they are known.
    """

    codes: dict[str, int]
    killed: list[int]
    stopped: list[int]
    failed_for: float
    seconds: float
    at: dict[str, float]
    load: float
    cpus: int
    steal: float
    throttled: float
    error: str
    code: str
    fix: str


class CollectedRanksBase(TypedDict):
    """What ladder_gloo always answers, state collected; ``doing``: the step that each rank is at."""

    done: bool
    started: bool
    ended: RanksEnd
    ranks: dict[str, RankReport]
    doing: dict[str, str]


class CollectedRanks(CollectedRanksBase, total=False):
    """ladder_gloo's answer, state collected.

    Attributes:
        broken: seconds since a rank of this node failed; missing if none did. The other nodes may be told to stop.
        why: which rank, and why.
    """

    broken: float
    why: str


class StartedRanks(TypedDict, total=False):
    """ladder_gloo's answer, state started: what the listeners saw, and the names that were looked up meanwhile.

    Neither is there where no listener was open, or none answered any more, or no names were left to be looked up.
    """

    listeners: ListenerReport
    names: DeferredLookups


class StoppedRanks(TypedDict):
    """ladder_gloo's answer, state stopped: nothing."""
