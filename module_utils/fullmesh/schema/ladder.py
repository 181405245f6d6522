# Copyright (c) the Fullmesh contributors
# SPDX-License-Identifier: MIT
"""What ladder_node, ladder_links and ladder_gloo return: one look at a node, its probe of the peers, the ranks."""

from __future__ import annotations

from typing import Literal, TypedDict

from .survey import NeighbourTable, NodeSurvey, ParallelLookups

# What becomes of a connection, by the kernel's state of its socket.
Verdict = Literal[
    "open",
    "refused",
    "rejected",
    "dropped",
    "no_route",
    "reset",
    "wrong_source",
    "someone_else",
    "mtu_black_hole",
]
# How the remark of a shut port begins where another port of that peer was open, and then shut when asked again.
BY_CHANCE = "open at first and shut when asked again"
# What a listener stands for: a port that the kernel picked, one of the data range, the plan's own two, a service's
# (held: the service itself listens there), one outside.
PeerKind = Literal["sample", "range", "master", "rendezvous", "service", "held"]
Kind = Literal[PeerKind, "outside"]
# A packet of a connection: what asks a peer, what answers one, what comes from one.
Direction = Literal["out", "answer", "in"]
# How far the asking end came.
Reached = Literal["asked", "connected", "greeted", "proved", "uploaded", "complete"]


class HostLine(TypedDict):
    """A line of the plan's hosts file."""

    address: str
    names: list[str]


class NamedPort(TypedDict):
    """A port that the plan names."""

    kind: PeerKind
    port: int


class LadderNodeParams(TypedDict):
    """What ladder_node is asked for; its documentation says what each of them is."""

    run: str
    token: str
    node: str
    address: str
    interface: str
    hosts: list[HostLine]
    python: str
    samples: int
    named: list[NamedPort]
    outside: bool
    allowed: list[list[int]]
    survey: bool
    beside: bool
    range: list[int]
    assumed: bool
    spread: int
    listen: bool
    nccl: bool
    lifetime: int
    attached: bool


class ProbeTarget(TypedDict):
    """A listener of a peer, which ladder_links connects to."""

    node: str
    address: str
    port: int
    kind: Kind


class ProbeOrigin(TypedDict):
    """Who connects: node and address, the run's token, how many bytes go there and back."""

    node: str
    address: str
    token: str
    payload: int


class PlannedNic(TypedDict):
    """The interface of the plan's address; ``speed`` in Mbit/s, ``mtu`` in bytes, 0 where unknown."""

    name: str
    exists: bool
    up: bool
    mtu: int
    speed: int


class ResolvedNames(TypedDict):
    """What names resolve to on a node: its own host name, and those of the plan; None: no answer."""

    hostname: str
    own: list[str] | None
    plan: dict[str, list[str] | None]


class PortSysctls(TypedDict):
    """As /proc/sys has them."""

    port_range: str
    reserved_ports: str
    somaxconn: str


class JobVersions(TypedDict):
    """Of the jobs' interpreter and its torch; empty where there is none."""

    python: str
    torch: str
    torch_nccl: str


class LadderFactsBase(TypedDict):
    """Every address of the node and its interface."""

    addresses: dict[str, str]


class LadderFacts(LadderFactsBase, total=False):
    """A node as a distributed job sees it.

    Attributes:
        limits: nofile, nofile_hard, memlock of the process that looked.
        software: what verify/software.py compares: glibc, locale, time zone, NIC driver, torch's build.
        load: runnable processes on average over the last minute.
        boot: the kernel's boot id.
        clock: seconds since 1970 when the look ended.
        seconds: how long it took.
    """

    interface: PlannedNic
    names: ResolvedNames
    limits: dict[str, int]
    sysctls: PortSysctls
    versions: JobVersions
    software: dict[str, str]
    system_python: str
    kernel: str
    cpus: int
    load: float
    boot: str
    clock: float
    seconds: float
    survey: NodeSurvey


class ProbePort(TypedDict):
    """A listener of the probe; ``error``: why it is not open, ``holder``: who has its port."""

    kind: Kind
    port: int
    error: str
    holder: str


class OpenedListeners(TypedDict):
    """The listeners of a node; ``tapped``: handshakes on the wire are seen."""

    ports: list[ProbePort]
    tapped: bool


class NcclListenerBase(TypedDict):
    """Where the system's NCCL would listen; ``reason``: empty, or missing, deadline, crashed, refused."""

    address: str
    port: int
    reason: str
    error: str


class NcclListener(NcclListenerBase, total=False):
    """The library that was asked."""

    version: str
    path: str
    family: str
    seconds: float


class LadderNodeResultBase(TypedDict):
    """ladder_node's answer."""

    facts: LadderFacts
    ports: list[ProbePort]
    tapped: bool


class LadderNodeResult(LadderNodeResultBase, total=False):
    """NCCL was asked where the plan's address is on an interface."""

    nccl: NcclListener


class LinkResultBase(TypedDict):
    """One try of one connection, from this node to a peer's listener.

    Attributes:
        node: the peer.
        verdict: what became of it, by the kernel.
        remark: what else the kernel says of it.
        errno: its name, empty without one.
        ms: until the connection stood; rtt_ms: the kernel's own smoothed round trip.
        offset: seconds by which the peer's clock is ahead, None where it was not measured; offset_error: how sure.
    """

    node: str
    address: str
    port: int
    kind: Kind
    verdict: Verdict
    remark: str
    errno: str
    ms: float
    rtt_ms: float
    offset: float | None
    offset_error: float


class LinkResult(LinkResultBase, total=False):
    """Where the packets went: own address and interface, neighbour entry, tries, who answered, retransmits."""

    source: str
    device: str
    neighbour: str
    attempts: int
    reached: Reached
    lost: int
    segments: int


class PeerRateBase(TypedDict):
    """One measurement of the rate to a peer; ``complete``: all bytes came."""

    node: str
    bytes: int
    seconds: float
    mbit_s: float
    complete: bool


class PeerRate(PeerRateBase, total=False):
    """Segments that were sent again."""

    lost: int


class PacketRoute(TypedDict):
    """What the kernel decides about packets to or from a peer, where it is not the ordinary (probe/ways.py).

    Attributes:
        peer: its address.
        direction: which packets; ports: of the listener, those for which the kernel was asked.
        error: why it refuses (EINVAL: blackhole, EACCES: prohibit; of ``in`` also rp_filter), empty where it does not.
        dev: over which they go, via: to which next hop, source: from which address.
        mark: of the packet, 0 for none; uid: of the process, -1 for whoever asked.
        rule: the route or the rule that refuses, in ip's words.
    """

    peer: str
    direction: Direction
    ports: list[int]
    error: str
    dev: str
    via: str
    source: str
    mark: int
    uid: int
    rule: str


class SweepTarget(ProbeTarget):
    """A listener of a schedule; ``block``: of the picture of the mesh, whose cell its peer belongs to."""

    block: int


class SweepResultBase(TypedDict):
    """What a probe of many peers comes to; what deviates stands among the links.

    Attributes:
        asked: listeners; tried: the first so many of them, in the schedule's order; peers: whose they are.
        rtt_us: by block, the longest of the kernel's round trips; 0 where there is none.
        ms: the median time until a connection stood.
        more: verdict -> places in the schedule of what deviates, beyond the links that are told in full.
    """

    asked: int
    tried: int
    peers: int
    rtt_us: list[int]
    ms: float
    more: dict[Verdict, list[int]]


class SweepResult(SweepResultBase, total=False):
    """``clock``: seconds by which the master's is ahead, and how sure that is."""

    clock: list[float]


class JobProbeBase(TypedDict):
    """The probe as the account that runs jobs: its name and number, how many listeners, those that it did not reach."""

    account: str
    uid: int
    tried: int
    links: list[LinkResult]


class LoginLimits(TypedDict):
    """What a login of an account is held to: open files, locked memory in bytes, processes; -1 for no limit."""

    nofile: int
    memlock: int
    processes: int


class JobProbe(JobProbeBase, total=False):
    """``past``: listeners that it reached and this process did not; ``error``: why nobody could be that account.

    ``login``: what its logins are held to, where one could be made.
    """

    past: list[LinkResult]
    error: str
    login: LoginLimits


class JobNetwork(TypedDict):
    """The network of a container in which ranks run, as it looks from inside.

    Attributes:
        pid: of a rank; command: its own.
        addresses: the network's, without loopback and link-local ones.
        tried: listeners that the node itself had reached; links: those of them that were not open from there.
        seen_as: the address that peers saw connections come from; empty where none came.
    """

    pid: int
    command: str
    addresses: list[str]
    tried: int
    links: list[LinkResult]
    seen_as: str


class LadderLinksResultBase(TypedDict):
    """ladder_links' answer."""

    links: list[LinkResult]
    bandwidth: list[PeerRate]
    neighbours: NeighbourTable
    seconds: float


class LadderLinksResult(LadderLinksResultBase, total=False):
    """``ways``: the kernel's decisions that are not the ordinary; ``swept``: of a schedule, what it came to.

    ``as_job``: what the account of jobs met, where it is known; ``networks``: those of containers in which ranks run.
    """

    ways: list[PacketRoute]
    swept: SweepResult
    as_job: JobProbe
    networks: list[JobNetwork]


class ListenerReportBase(TypedDict):
    """What the listeners of a node saw: handshakes by peer, strangers, SYNs and answers by peer and port."""

    proved: dict[str, int]
    refused: int
    strangers: list[str]
    asked: dict[str, list[int]]
    answered: dict[str, list[int]]


class PacketDrop(TypedDict):
    """Packets that the kernel threw away while the probe ran: its reason, the function that gave it, how many."""

    reason: str
    place: str
    count: int


class ListenerReport(ListenerReportBase, total=False):
    """Retransmits and segments by peer; counters of the kernel over the probe, and why it threw packets away."""

    lost: dict[str, list[int]]
    counters: dict[str, int]
    drops: list[PacketDrop]


class DeferredLookups(TypedDict):
    """Names that ladder_node looked up beside the probe; ladder_gloo brings them."""

    names: ResolvedNames
    survey: ParallelLookups


class TracedPeer(TypedDict):
    """A peer whose packets are watched: its address, our listeners that it does not reach, its own that we do not."""

    address: str
    mine: list[int]
    theirs: list[int]


class TracedPacket(TypedDict):
    """A packet of the probe that a rule of a node's packet filter stopped, as the kernel says (nft monitor trace).

    Attributes:
        family, table, chain: where; handle: of the rule, 0 for the chain's policy.
        source, target: addresses; sport, dport: ports.
        rule: in nft's own words.
    """

    family: str
    table: str
    chain: str
    handle: int
    source: str
    target: str
    sport: int
    dport: int
    rule: str


class LadderTraceResult(TypedDict):
    """ladder_trace's answer; ``why``: nothing could be watched, empty where it could."""

    traced: list[TracedPacket]
    why: str
