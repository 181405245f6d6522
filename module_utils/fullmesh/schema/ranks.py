# Copyright (c) the Fullmesh contributors
# SPDX-License-Identifier: MIT
"""The answers of ladder_gloo: the end of the listeners, then the results of the test job's ranks."""

from __future__ import annotations

from typing import Any, TypedDict

from .ladder import DeferredLookups, ListenerReport
from .survey import JobVariable

# The states of a step: it begins, ends, is not supported by this torch, gives a wrong value, or raises.
STATES = ("begin", "ok", "unsupported", "wrong", "failed")


class LadderGlooParams(TypedDict):
    """The parameters of ladder_gloo. The module documents them."""

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
    """A step without any data."""


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
    """The rank's listeners (address, port), and the number of its connections."""

    listeners: list[tuple[str, int]]
    connections: int


class OptionalStepResult(TypedDict):
    """Whether the step applied, for example because there is a GPU. The other keys are missing if not."""

    applicable: bool


class GpusStepResult(OptionalStepResult, total=False):
    """The rank's GPU: device, backend, its name and NCCL's version. *why* it has none."""

    why: str
    device: str
    backend: str
    name: str
    nccl: str


class NcclStepResult(OptionalStepResult, total=False):
    """The first collective over the GPUs.

    Attributes:
        seconds: missing until it has ended.
        said: NCCL's own lines about the network that it chose.
        settings: NCCL's variables that choose a network, with their files.
        verbs: the number of RDMA devices with a file in /dev.
        shut: those that only root may open.
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
    """The command of nccl-tests, its exit code, and the end of its output."""

    command: list[str]
    code: int
    text: str


class TrainingStepResult(OptionalStepResult, total=False):
    """A training job: its device, its losses, and the loss of the same job in one process."""

    device: str
    backend: str
    dtype: str
    samples: int
    steps: int
    first_loss: float
    loss: float
    reference: float
    groups: list[list[int]]


# Step -> its data on success. A class cannot have an attribute ``import``.
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
    """A line that a rank writes at the start and end of each step. ``done`` is the last step."""

    step: str
    state: str


class RankEvent(RankEventBase, total=False):
    """A rank's report on a step.

    Attributes:
        at: seconds since the rank began.
        seconds: how long the step took.
        text: the exception, if any.
        data: the step's result, of StepsSaid.
        seen, expected: values that differ.
        check: one word for the checked property.
        ranks: those at fault.
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
    """One rank: its events, and the end of its output."""

    events: list[RankEvent]
    log: str


class RanksEnd(TypedDict, total=False):
    """How the ranks of a node ended.

    Empty while they run.

    Attributes:
        codes: exit status by rank.
        killed: ranks that the deadline ended.
        stopped: ranks that were ended because another rank, on this node or another, had failed.
        failed_for: seconds between the first failure here and the end of all ranks. Missing without a failure.
        seconds: from the first start to the last end.
        at: rank -> seconds from its start to its end, for ranks that ended by themselves.
        load: the average number of runnable processes in the last minute, at the end.
        cpus: the number of CPUs.
        steal: the share of CPU time that the hypervisor gave to others while the ranks ran.
        throttled: the share of a control group's periods in which its limit stopped the ranks.
        error: why they could not be started.
        code, fix: of this error, if known.
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
    """The required keys of ladder_gloo's answer with state collected. ``doing``: the present step of each rank."""

    done: bool
    started: bool
    ended: RanksEnd
    ranks: dict[str, RankReport]
    doing: dict[str, str]


class CollectedRanks(CollectedRanksBase, total=False):
    """The answer of ladder_gloo with state collected.

    Attributes:
        broken: seconds since a rank of this node failed. Missing if none did. The other nodes may be stopped.
        why: the rank and its error.
    """

    broken: float
    why: str


class StartedRanks(TypedDict, total=False):
    """The answer of ladder_gloo with state started: the listeners' observations, and names resolved meanwhile.

    Both are missing if no listener was open or answered, or if no names were left to resolve.
    """

    listeners: ListenerReport
    names: DeferredLookups


class StoppedRanks(TypedDict):
    """ladder_gloo's answer, state stopped: nothing."""
