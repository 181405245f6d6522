# Copyright (c) the Fullmesh contributors
# SPDX-License-Identifier: MIT
"""The results of ladder_node, ladder_links and ladder_gloo: a node's facts, its probe of the peers, the ranks."""

from __future__ import annotations

from typing import Literal, TypedDict

from .first_look import NicNeighbor
from .survey import NeighbourTable, NodeSurvey, ParallelLookups, ShapedQueue

# The result of a connection, from the kernel's state of its socket.
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
# How the remark of a closed port begins if another port of that peer was open, and then closed on the second try.
BY_CHANCE = "open at first, then closed in the second test"
# How the remark of an open port begins if large packets arrive there, but only after a long time.
SLOW = "large packets arrive, but slowly"
# The kind of a listener: a port that the kernel chose, one of the data range, the plan's own two, a service's (held:
# the service itself listens there), one outside.
PeerKind = Literal["sample", "range", "master", "rendezvous", "service", "held"]
Kind = Literal[PeerKind, "outside"]
# A packet of a connection: to a peer, the answer to a peer, or from a peer.
Direction = Literal["out", "answer", "in"]
# The last stage that the client reached.
Reached = Literal["asked", "connected", "greeted", "proved", "uploaded", "complete"]


class HostLine(TypedDict):
    """A line of the plan's hosts file."""

    address: str
    names: list[str]


class NamedPort(TypedDict):
    """A port of the plan."""

    kind: PeerKind
    port: int


class RailAddress(TypedDict):
    """An address of a node on a rail of the plan (``fullmesh_rails``)."""

    rail: str
    address: str


class LadderNodeParams(TypedDict):
    """The parameters of ladder_node. The module documents them."""

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
    as_job: bool
    job_user: str
    range: list[int]
    assumed: bool
    spread: int
    listen: bool
    nccl: bool
    lifetime: int
    attached: bool
    rails: list[RailAddress]


class ProbeTargetBase(TypedDict):
    """A listener of a peer, which ladder_links connects to."""

    node: str
    address: str
    port: int
    kind: Kind


class ProbeTarget(ProbeTargetBase, total=False):
    """A listener that is reached from a given address. ``own``: that address, else the kernel chooses."""

    own: str


class RailTarget(ProbeTargetBase):
    """A listener of a peer on a rail, and the own address on it."""

    rail: str
    own: str


class ProbeOrigin(TypedDict):
    """The origin of a connection: node and address, the run's token, the size of the payload."""

    node: str
    address: str
    token: str
    payload: int


RDMA_SMALL_COUNT, RDMA_LARGE_COUNT = 8, 2  # messages of a try, in this order


class RdmaPair(TypedDict):
    """An RDMA device of this node and one of a peer, with the GIDs that a job uses.

    ``spare``: another device of the peer, with link-local GIDs. It is tried if the job's own pair fails, because the
    cables may be swapped.
    """

    node: str
    device: str
    port: int
    gid: str
    peer_device: str
    peer_port: int
    peer_gid: str
    spare: bool


class RdmaTarget(RdmaPair):
    """A pair to try. ``address``, ``tcp_port``: a listener of the peer, over which both ends agree."""

    address: str
    tcp_port: int


class RdmaEnd(TypedDict):
    """The outcome of a try at one end.

    Attributes:
        step: the step that failed, empty if none did (probe/rdma.py).
        error: the errno, the state, or the status of the completion.
        count: messages that came.
    """

    step: str
    error: str
    count: int


class RdmaResultBase(RdmaPair):
    """The outcome of a try.

    Attributes:
        own, peer: of this end and of the peer.
        mtu, peer_mtu: the active MTUs in bytes, 0 if unknown.
    """

    own: RdmaEnd
    peer: RdmaEnd
    mtu: int
    peer_mtu: int


class RdmaResult(RdmaResultBase, total=False):
    """The outcome with the rate, if it was measured."""

    mbit_s: float


class RdmaRate(TypedDict):
    """The rate from a device of this node to one of a peer."""

    node: str
    device: str
    peer_device: str
    mbit_s: float


class RdmaProbeBase(TypedDict):
    """The tries of a node.

    ``counters``: growth of the error counters of its devices (``mlx5_0:1 NAME``) and NICs (``ens1f0np0 NAME``).
    """

    pairs: list[RdmaResult]
    counters: dict[str, int]


class RdmaProbe(RdmaProbeBase, total=False):
    """The tries with the rates, if they were measured."""

    rates: list[RdmaRate]


class PlannedNic(TypedDict):
    """The interface of the plan's address. ``speed`` in Mbit/s, ``mtu`` in bytes, 0 if unknown."""

    name: str
    exists: bool
    up: bool
    mtu: int
    speed: int


class ResolvedNames(TypedDict):
    """The addresses of a node's own host name and of the plan's names. None: no answer."""

    hostname: str
    own: list[str] | None
    plan: dict[str, list[str] | None]


class PortSysctls(TypedDict):
    """Port settings of /proc/sys."""

    port_range: str
    reserved_ports: str
    somaxconn: str


class JobVersions(TypedDict):
    """The versions of the jobs' interpreter and its torch, empty if there is none."""

    python: str
    torch: str
    torch_nccl: str


HealthState = Literal["fit", "not fit", "not checked"]


class HealthSpan(TypedDict):
    """Equal verdicts of fullmesh-check that follow each other. ``first``, ``last``: seconds since 1970."""

    state: HealthState
    first: int
    last: int
    codes: list[str]


class LadderFactsBase(TypedDict):
    """Every address of the node and its interface."""

    addresses: dict[str, str]


class LadderFacts(LadderFactsBase, total=False):
    """A node as a distributed job sees it.

    Attributes:
        limits: nofile, nofile_hard, memlock of the observing process.
        software: compared by verify/software.py: glibc, locale, time zone, NIC driver, torch's build.
        load: the average number of runnable processes in the last minute.
        boot: the kernel's boot id.
        clock: seconds since 1970 at the end of the observation.
        seconds: how long it took.
        health: the last verdicts that the role node_health recorded, oldest first.
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
    health: list[HealthSpan]


class ProbePort(TypedDict):
    """A listener of the probe. ``error``: why it is not open. ``holder``: the process that has its port."""

    kind: Kind
    port: int
    error: str
    holder: str


class RailPort(RailAddress):
    """A listener on a rail. ``error``: why it is not open."""

    port: int
    error: str


class OpenedListeners(TypedDict):
    """The listeners of a node. ``tapped``: handshakes on the wire are recorded. ``rails``: those on its rails."""

    ports: list[ProbePort]
    tapped: bool
    rails: list[RailPort]


class NcclListenerBase(TypedDict):
    """The address that the system's NCCL would listen on.

    ``reason``: empty, or missing, deadline, crashed, refused.
    """

    address: str
    port: int
    reason: str
    error: str


class NcclListener(NcclListenerBase, total=False):
    """The library that was queried."""

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
    """The answer of ladder_node. NCCL is only queried if the plan's address is on an interface.

    ``rails``: the listeners on the rails of the plan, if it has any.
    """

    nccl: NcclListener
    rails: list[RailPort]


class LinkResultBase(TypedDict):
    """One try of one connection, from this node to a peer's listener.

    Attributes:
        node: the peer.
        verdict: the result, from the kernel.
        remark: further details from the kernel.
        errno: its name, or empty.
        ms: until the connection was established.
        rtt_ms: the kernel's smoothed round trip time.
        offset: seconds by which the peer's clock is ahead, None if not measured.
        offset_error: its uncertainty.
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
    """The path of the packets: source address, interface, neighbour entry, tries, answering address, retransmits."""

    source: str
    device: str
    neighbour: str
    attempts: int
    reached: Reached
    lost: int
    segments: int


class PeerRateBase(TypedDict):
    """One measurement of the rate to a peer. ``complete``: all bytes came."""

    node: str
    bytes: int
    seconds: float
    mbit_s: float
    complete: bool


class PeerRate(PeerRateBase, total=False):
    """A rate with the number of resent segments."""

    lost: int


class PacketRoute(TypedDict):
    """An unusual routing decision of the kernel for packets to or from a peer (probe/ways.py).

    Attributes:
        peer: its address.
        direction: of the packets.
        ports: the listener's ports that were queried.
        error: the errno's name (EINVAL: blackhole, EACCES: prohibit, with ``in`` also rp_filter), or empty.
        dev, via, source: interface, next hop and source address.
        mark: of the packet, 0 for none.
        uid: of the process, -1 for any.
        rule: the rejecting route or rule, or the rule that leads to another table, in ip's format.
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


class RailLink(TypedDict):
    """A connection over a rail, from this node's address on it to a peer's.

    Attributes:
        rail, node, own, address: of the target.
        verdict, remark, errno, rtt_ms: as in a link.
        dev, via: interface and next hop by which the kernel sends packets from *own* to *address*.
        error: the errno's name if it has no route for them, or empty.
        refused: the errno's name with which it drops the peer's packets (EXDEV: rp_filter), or empty.
        mac: the hardware address that it uses for the next hop, or empty.
        by_hand: that entry is static.
    """

    rail: str
    node: str
    own: str
    address: str
    verdict: Verdict
    remark: str
    errno: str
    rtt_ms: float
    dev: str
    via: str
    error: str
    refused: str
    mac: str
    by_hand: bool


class RailOwner(TypedDict):
    """The hardware address of another machine that has this node's address on a rail."""

    rail: str
    mac: str


class RailProbe(TypedDict):
    """The tests of a node's rails.

    Attributes:
        links: to the peers.
        duplicates: other owners of the own addresses.
        queues: those of the rails' interfaces that limit, lose or delay packets.
        heard: the neighbors that answered on interfaces of rails with a failed link.
    """

    links: list[RailLink]
    duplicates: list[RailOwner]
    queues: list[ShapedQueue]
    heard: list[NicNeighbor]


class SweepTarget(ProbeTarget):
    """A listener of a schedule. ``block``: the cell of the mesh picture that its peer belongs to."""

    block: int


class SweepResultBase(TypedDict):
    """The totals of a probe of many peers.

    Unexpected results are among the links.

    Attributes:
        asked: the number of listeners.
        tried: the number of them that were tried, in the schedule's order.
        peers: the number of their nodes.
        rtt_us: by block, the longest of the kernel's round trips, 0 if there is none.
        ms: the median time until a connection was established.
        more: verdict -> positions in the schedule of further unexpected results, beyond the links reported in full.
    """

    asked: int
    tried: int
    peers: int
    rtt_us: list[int]
    ms: float
    more: dict[Verdict, list[int]]


class SweepResult(SweepResultBase, total=False):
    """The totals with the clock. ``clock``: seconds by which the master's is ahead, and the uncertainty."""

    clock: list[float]


class JobProbeBase(TypedDict):
    """The probe as the account that runs jobs: its name and number, the number of listeners, and unreached ones."""

    account: str
    uid: int
    tried: int
    links: list[LinkResult]


class LoginLimits(TypedDict):
    """The limits of an account's login: open files, locked memory in bytes, processes. -1 for no limit."""

    nofile: int
    memlock: int
    processes: int


class JobProbe(JobProbeBase, total=False):
    """``past``: listeners that it reached and this process did not.

    ``error``: why the account could not be used.

    ``login``: the limits of its logins, if one was possible.
    """

    past: list[LinkResult]
    error: str
    login: LoginLimits


class JobNetwork(TypedDict):
    """The network of a container in which ranks run, seen from inside.

    Attributes:
        pid: of a rank.
        command: of the rank.
        addresses: of the network, without loopback and link-local ones.
        tried: listeners that the node itself had reached.
        links: those of them that were not open from there.
        seen_as: the source address that peers saw, empty if no connection came.
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
    """Optional parts of the answer.

    ``ways``: unusual routing decisions. ``swept``: the totals of a schedule. ``as_job``: the results of the job
    account, if known. ``networks``: those of containers in which ranks run. ``rdma``: those of RDMA devices.
    ``rails``: those over the rails of the plan.
    """

    rdma: RdmaProbe
    rails: RailProbe
    ways: list[PacketRoute]
    swept: SweepResult
    as_job: JobProbe
    networks: list[JobNetwork]


class ListenerReportBase(TypedDict):
    """The observations of a node's listeners: handshakes by peer, strangers, SYNs and answers by peer and port."""

    proved: dict[str, int]
    refused: int
    strangers: list[str]
    asked: dict[str, list[int]]
    answered: dict[str, list[int]]


class PacketDrop(TypedDict):
    """Packets that the kernel dropped while the probe ran: the reason, the kernel function, the count."""

    reason: str
    place: str
    count: int


class ListenerReport(ListenerReportBase, total=False):
    """Retransmits and segments by peer, kernel counters over the probe, and reasons of dropped packets."""

    lost: dict[str, list[int]]
    counters: dict[str, int]
    drops: list[PacketDrop]


class DeferredLookups(TypedDict):
    """Names that ladder_node resolved in the background. ladder_gloo returns them."""

    names: ResolvedNames
    survey: ParallelLookups


class TracedPeer(TypedDict):
    """A traced peer.

    Attributes:
        mine: ports of listeners here that it cannot reach.
        theirs: ports of its listeners that this node cannot reach.
    """

    address: str
    mine: list[int]
    theirs: list[int]


class TracedPacket(TypedDict):
    """A packet of the probe that a rule of a node's packet filter blocked (nft monitor trace).

    Attributes:
        family, table, chain: of the rule.
        handle: of the rule, 0 for the chain's policy.
        source, target: addresses.
        sport, dport: ports.
        rule: in nft's format.
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
    """The answer of ladder_trace. ``why``: the reason if tracing was not possible, or empty."""

    traced: list[TracedPacket]
    why: str
