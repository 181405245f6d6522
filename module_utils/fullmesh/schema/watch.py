# Copyright (c) the Fullmesh contributors
# SPDX-License-Identifier: MIT
"""The watch: who takes part in a job (written by the controller), its picture, and what is wrong (read there again)."""

from __future__ import annotations

from typing import Literal, TypedDict

# Where processes go: the ranks' store, the agents' rendezvous (or a static one), another rank's data, a service's port.
Kind = Literal["store", "rendezvous", "static", "data", "service"]


class ParticipantNodeBase(TypedDict):
    """A node of a job as the plan has it; ``address`` is the cluster's, ``addresses`` are all that are planned."""

    name: str
    address: str
    addresses: list[str]
    names: list[str]
    first_rank: int
    local_ranks: int


class ParticipantNode(ParticipantNodeBase, total=False):
    """``auto``: its ranks were not known where the plan was made; what the node remembers itself counts more."""

    auto: bool


class ParticipantMaster(TypedDict):
    """Where rank 0 is."""

    node: str
    address: str
    port: int


class DataPortSpan(TypedDict):
    """The ports of data connections, both ends included."""

    first: int
    last: int


class PlannedService(TypedDict):
    """A port, or a range, of a service of the plan (``fullmesh_services``) and the nodes on which it lives."""

    service: str
    part: str
    first: int
    last: int
    protocol: str
    nodes: list[str]


class Participants(TypedDict):
    """Who takes part in jobs: /etc/fullmesh/nodes.json. ``networks`` are the cluster's, with their prefix lengths."""

    nodes: list[ParticipantNode]
    master: ParticipantMaster
    data_ports: DataPortSpan
    networks: list[str]


class PartialParticipants(TypedDict, total=False):
    """The same as the watch meets it, with the services: without a plan it names nobody, and only counts."""

    nodes: list[ParticipantNode]
    master: ParticipantMaster
    data_ports: DataPortSpan
    networks: list[str]
    services: list[PlannedService]


class WatchedProcess(TypedDict):
    """A process of a job, and what it was told; 0 and "" where it was not.

    ``rank`` is None in what has no rank; ``world`` is the number of ranks, ``groups`` that of nodes as torchrun tells
    its ranks, ``nnodes`` as it was told itself; ``master`` and ``port`` the ranks' store; ``agent`` torchrun's
    rendezvous (``static``: ranks follow from the node's number); ``coordinator`` JAX's; ``told`` the environment that
    ranks come from.
    """

    pid: int
    rank: int | None
    world: int
    groups: int
    nnodes: int
    master: str
    port: int
    agent: tuple[str, int] | None
    coordinator: tuple[str, int] | None
    static: bool
    command: str
    told: dict[str, str]


class WatchedSocket(TypedDict):
    """A TCP socket, as /proc/net/tcp has it, and the process that holds it (0: none of the job's).

    ``state`` is the kernel's number.
    """

    address: str
    port: int
    peer: str
    peer_port: int
    state: int
    inode: str
    pid: int


class JobSnapshot(TypedDict):
    """A job at one moment, on one node; ``others``: what listens beside it in the same network."""

    processes: list[WatchedProcess]
    sockets: list[WatchedSocket]
    others: list[WatchedSocket]


class JobEndpoint(TypedDict):
    """Where processes of this node have to go, and which ones."""

    host: str
    port: int
    kind: Kind
    users: list[WatchedProcess]


class JobProblem(TypedDict):
    """What keeps a job's ranks apart. "" and 0: does not apply.

    ``at`` is the node that sees it, ``host``/``port``/``kind`` the endpoint; ``who`` names ranks or a node in words;
    ``node`` is the one that is missing or stuck, ``address`` its own, ``peer`` the node at the other end, ``service``
    whose port it is in the plan, ``inode`` the socket of somebody beside the job; ``came`` of
    ``wanted`` connections are there; ``key`` stays the same as long as it is the same problem. ``verdict`` (a probe's)
    and ``zone`` (firewalld's that keeps it out) come with the explanation: ``why``, ``next`` and the ``sentence``.
    """

    code: str
    key: str
    at: str
    host: str
    port: int
    kind: Kind
    who: str
    node: str
    address: str
    peer: str
    service: str
    rank: int | None
    inode: str
    came: int
    wanted: int
    verdict: str
    zone: str
    why: str
    next: str
    sentence: str


EventKind = Literal[
    "started", "problem", "together", "killed", "stalled", "moving", "unseen", "ended"
]


class WatchEventFields(TypedDict, total=False):
    """``pid`` of the job that started, ``code`` of its end, a problem, ``text`` of a sentence.

    ``job`` is the name of a job that stands, ``account`` the one that its ranks belong to.
    """

    pid: int
    code: int
    problem: JobProblem
    text: str
    job: str
    account: str


class WatchEvent(WatchEventFields):
    """What a node's watch tells the controller, ``after`` so many seconds."""

    event: EventKind
    node: str
    after: float
