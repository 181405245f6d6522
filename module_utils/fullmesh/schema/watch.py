# Copyright (c) the Fullmesh contributors
# SPDX-License-Identifier: MIT
"""The watch: a job's participants (written by the controller), its state, and its problems (read by the controller)."""

from __future__ import annotations

from typing import Literal, TypedDict

# The targets of connections: the ranks' store, the agents' rendezvous (or a static one), another rank's data, a
# service's port.
Kind = Literal["store", "rendezvous", "static", "data", "service"]


class ParticipantNodeBase(TypedDict):
    """A node of a job in the plan. ``address`` is the cluster's, ``addresses`` are all planned ones."""

    name: str
    address: str
    addresses: list[str]
    names: list[str]
    first_rank: int
    local_ranks: int


class ParticipantNode(ParticipantNodeBase, total=False):
    """``auto``: the plan was made without its number of ranks, so the node's own record takes precedence."""

    auto: bool


class ParticipantMaster(TypedDict):
    """The node and address of rank 0."""

    node: str
    address: str
    port: int


class DataPortSpan(TypedDict):
    """The ports of data connections, both ends included."""

    first: int
    last: int


class PlannedService(TypedDict):
    """A port or range of a service in the plan (``fullmesh_services``), and the nodes of the service."""

    service: str
    part: str
    first: int
    last: int
    protocol: str
    nodes: list[str]


class Participants(TypedDict):
    """The participants of jobs: /etc/fullmesh/nodes.json. ``networks`` are the cluster's, with prefix lengths."""

    nodes: list[ParticipantNode]
    master: ParticipantMaster
    data_ports: DataPortSpan
    networks: list[str]


class PartialParticipants(TypedDict, total=False):
    """The participants as the watch reads them, with the services.

    Without a plan there are no names, only counts.
    """

    nodes: list[ParticipantNode]
    master: ParticipantMaster
    data_ports: DataPortSpan
    networks: list[str]
    services: list[PlannedService]


class WatchedProcess(TypedDict):
    """A process of a job, and its settings, 0 and "" if not set.

    Attributes:
        rank: None in processes without a rank.
        world: the number of ranks.
        groups: the number of nodes, as torchrun sets it for its ranks.
        nnodes: the number of nodes, as torchrun itself got it.
        master, port: the ranks' store.
        agent: torchrun's rendezvous (``static``: ranks follow from the node's number).
        coordinator: JAX's.
        told: the environment that the ranks inherit.
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
    """A TCP socket in /proc/net/tcp, and the process that holds it (0: not one of the job's).

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
    """A job at one moment on one node. ``others``: other listeners in the same network."""

    processes: list[WatchedProcess]
    sockets: list[WatchedSocket]
    others: list[WatchedSocket]


class JobEndpoint(TypedDict):
    """An endpoint that processes of this node must reach, and these processes."""

    host: str
    port: int
    kind: Kind
    users: list[WatchedProcess]


class JobProblem(TypedDict):
    """A problem that separates a job's ranks. "" and 0: not applicable.

    Attributes:
        at: the node that sees it.
        host, port, kind: the endpoint.
        who: a description of ranks or a node.
        node: the missing or stalled one.
        address: of that node.
        peer: the node at the other end.
        service: the service that has the port in the plan.
        inode: the socket of a process outside of the job.
        came, wanted: the number of present and expected connections.
        key: stays the same for the same problem.
        verdict, zone: the probe's verdict and the blocking zone of firewalld, with the explanation: ``why``, ``next``
            and the ``sentence``.
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
    "started",
    "problem",
    "together",
    "killed",
    "stalled",
    "moving",
    "unseen",
    "ranks",
    "clock",
    "ended",
]


class WatchEventFields(TypedDict, total=False):
    """``pid`` of the started job, ``code`` of its end, a problem, ``text`` of a sentence.

    ``job`` is the name of a hung job, ``account`` the one that its ranks belong to. ``sent_ns`` is the node's time.
    The ``text`` of ``ranks`` is a packed `NodeHang`. ``clock`` has nothing else than the time.
    """

    pid: int
    code: int
    problem: JobProblem
    text: str
    job: str
    account: str
    sent_ns: int


class WatchEvent(WatchEventFields):
    """An event of a node's watch, ``after`` so many seconds."""

    event: EventKind
    node: str
    after: float
