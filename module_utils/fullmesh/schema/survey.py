# Copyright (c) the Fullmesh contributors
# SPDX-License-Identifier: MIT
"""The survey of a node (ladder_node with ``survey: true``): all that the rules of verification and diagnosis read.

What could not be looked at is missing, and stands in ``unknown``.
"""

from __future__ import annotations

from typing import Any, TypedDict

from .gpu import FabricManager, GpuCard, PciGpu
from .next_boot import NextBoot


class MissingFact(TypedDict):
    """What was not seen, and why: ``kernel log``, ``in a container the kernel's messages are the host's``."""

    what: str
    why: str


class Nic(TypedDict):
    """An interface of the kernel; ``speed`` in Mbit/s, 0 where the driver names none; ``mtu`` in bytes.

    ``errors``: rx_errors and the like, from /sys/class/net/NAME/statistics. ``addresses``: with their prefix.
    """

    name: str
    index: int
    mac: str
    mtu: int
    carrier: bool
    running: bool
    state: str
    speed: int
    duplex: str
    physical: bool
    addresses: list[str]
    rp_filter: str
    errors: dict[str, int]


class Route(TypedDict):
    """What ``ip route get`` answers for an address; ``found``: ``yes``, ``no``, or why it could not be asked."""

    via: str
    dev: str
    src: str
    kind: str
    found: str


class NeighbourBase(TypedDict):
    """An entry of the neighbour table (ip-neighbour(8))."""

    mac: str
    state: str
    dev: str


class Neighbour(NeighbourBase, total=False):
    """``by_hand``: the kernel did not learn it and never asks; ``nud``: then its state (PERMANENT, NOARP)."""

    by_hand: bool
    nud: str


class NeighbourTable(TypedDict):
    """The neighbour table: its size, and the entries of the peers."""

    count: int
    entries: dict[str, Neighbour]


class Listener(TypedDict):
    """A listening TCP socket and the process that holds it; ``age`` in seconds."""

    address: str
    port: int
    pid: int
    process: str
    command: str
    age: float


class SocketSummary(TypedDict):
    """TCP sockets of the node: how many hold a port of the data range, wait in TIME_WAIT, are there at all."""

    listening: list[Listener]
    in_range: int
    time_wait: int
    total: int


class NftSurvey(TypedDict):
    """The kernel's packet filter as ``nft -j list ruleset`` has it; ``cut``: how many rules were left out."""

    chains: list[Any]
    rules: list[Any]
    sets: list[Any]
    cut: int


class FirewalldZone(TypedDict):
    """A zone of firewalld; ``rules``: how many rich rules it has."""

    target: str
    ports: list[str]
    services: list[str]
    sources: list[str]
    interfaces: list[str]
    rules: int


class ZoneState(TypedDict):
    """A zone now and in its file; None where the file is missing."""

    runtime: FirewalldZone
    permanent: FirewalldZone | None


class FirewalldPolicy(TypedDict):
    """A policy of firewalld with its rich rules."""

    target: str
    ports: list[str]
    services: list[str]
    ingress: list[str]
    egress: list[str]
    rules: list[str]


class PolicyState(TypedDict):
    """A policy now and in its file; None where the file is missing."""

    runtime: FirewalldPolicy
    permanent: FirewalldPolicy | None


class FirewalldStateBase(TypedDict):
    """firewalld: default zone, active zones with their ``sources`` and ``interfaces``, zones, sets of addresses."""

    default: str
    active: dict[str, dict[str, list[str]]]
    zones: dict[str, ZoneState]
    ipsets: dict[str, list[str]]


class FirewalldState(FirewalldStateBase, total=False):
    """Policies came with firewalld 0.9."""

    policies: dict[str, PolicyState]


class PciPath(TypedDict):
    """The way of a GPU or an RDMA card through PCIe.

    ``kind``: gpu or rdma; ``numa``: -1 where it is not known; ``iommu``: what its IOMMU group does (DMA, DMA-FQ:
    translates; identity), empty without one; ``redirecting``: ports of switches above it whose ACS sends peers up.
    """

    bus: str
    kind: str
    numa: int
    iommu: str
    redirecting: list[str]


class GpuSurveyBase(TypedDict):
    """The GPUs of a node; ``present``: NVIDIA's driver is loaded."""

    present: bool
    cards: list[GpuCard]


class GpuSurvey(GpuSurveyBase, total=False):
    """What is known where there is a driver, or was one.

    ``failed``: the driver is loaded and nvidia-smi does not work; ``said``: its words; ``loaded``: the module.
    ``paths`` and ``direct`` (how RDMA reaches a GPU's memory) are known on a machine of its own only.
    ``linked``: every two GPUs have NVLinks to each other, or a switch of them; missing where no GPU has one.
    ``fabric_manager`` is known on a machine of its own, where NVSwitches or a card's fabric ask for it.
    """

    pci: list[PciGpu]
    driver: str
    cuda: str
    failed: bool
    said: str
    loaded: str
    paths: list[PciPath]
    direct: str
    linked: bool
    switches: int
    fabric_manager: FabricManager


class KernelEvent(TypedDict):
    """A message of the kernel that explains a failure; ``age`` in seconds."""

    kind: str
    age: float
    text: str


class SelinuxDenial(TypedDict):
    """What SELinux denied; ``age`` in seconds."""

    command: str
    age: float
    text: str


class SelinuxSurvey(TypedDict):
    """SELinux: ``enforcing``, ``permissive``, ``disabled``, or empty without it."""

    mode: str
    denials: list[SelinuxDenial]


class ReverseName(TypedDict):
    """The name of an address, and how many seconds the answer took."""

    name: str
    seconds: float


class NameLookups(TypedDict, total=False):
    """What name servers answered; an address without a name, or a server without an answer, is None."""

    reverse: dict[str, ReverseName | None]
    own_answers: list[str]
    master_answers: list[str]


class JobProcess(TypedDict):
    """A process that looks like a rank of a job, with the variables that place it; ``age`` in seconds."""

    pid: int
    command: str
    age: float
    environment: dict[str, str]


class JobVariable(TypedDict):
    """A variable of the environment and the file that sets it."""

    value: str
    source: str


class JobEnvironmentBase(TypedDict):
    """What a job's environment would be, and what every file alone says."""

    values: dict[str, JobVariable]
    files: dict[str, dict[str, str]]


class JobEnvironment(JobEnvironmentBase, total=False):
    """``unread``: NCCL_CONF_FILE, where NCCL cannot open what it names, and says nothing."""

    unread: str


class SurveyClock(TypedDict):
    """The node's clock, in seconds since 1970, and whether the kernel calls it synchronised."""

    now: float
    synchronised: bool


class Gid(TypedDict):
    """An entry of an RDMA port's GID table."""

    index: int
    type: str
    gid: str


class RdmaPort(TypedDict):
    """A port of an RDMA device, as /sys/class/infiniband shows it."""

    device: str
    port: int
    state: str
    physical: str
    layer: str
    rate: str
    vendor: str
    gids: list[Gid]


class EfaPci(TypedDict):
    """An EFA on the PCI bus, with the driver that holds it, if any."""

    slot: str
    driver: str


class EfaVerbs(TypedDict):
    """An EFA as an RDMA device."""

    name: str
    state: str


class Libfabric(TypedDict, total=False):
    """What ``fi_info -p efa`` said: its path, version, domains, exit status."""

    fi_info: str
    version: str
    domains: list[str]
    rc: int
    said: str


class NcclPluginBase(TypedDict):
    """NCCL's network plugin: the path that the loader finds, and where else one lies."""

    path: str
    elsewhere: str


class NcclPlugin(NcclPluginBase, total=False):
    """Why it could not be loaded."""

    error: str


class EfaSurvey(TypedDict):
    """EFA on a node: hardware, driver, libfabric, plugin, environment."""

    vendor: str
    instance: str
    pci: list[EfaPci]
    verbs: list[EfaVerbs]
    driver_version: str
    libfabric: Libfabric
    plugin: NcclPlugin
    environment: dict[str, str]


class NetworkNamespace(TypedDict):
    """A network namespace beside the machine's own; ``port_range`` as in its sysctl."""

    pid: int
    commands: list[str]
    port_range: str


class FilesystemSpace(TypedDict):
    """A file system, in bytes."""

    size: int
    free: int


class NodeSurveyBase(TypedDict):
    """What every survey has; ``range``: the first and last data port, ``manifest``: Fullmesh configured the node."""

    root: bool
    range: list[int]
    manifest: bool
    unknown: list[MissingFact]
    shm: FilesystemSpace
    disk: FilesystemSpace
    seconds: float


class PacketHook(TypedDict):
    """What sees packets beside the packet filter: where (xdp, tc ingress, cgroup egress ...), its card, what it is."""

    at: str
    card: str
    what: str


class JobUnitBase(TypedDict):
    """What systemd holds units of jobs to (fullmesh-job@), as systemctl show has it.

    Attributes:
        drop_ins: files that change the unit; nofile: open files, -1 for no limit.
        allow, deny: networks; what is in neither is allowed. own_network: PrivateNetwork=.
        families: of addresses, RestrictAddressFamilies=; ``~`` before those that are forbidden.
    """

    drop_ins: list[str]
    nofile: int
    allow: list[str]
    deny: list[str]
    own_network: bool
    families: str


class JobUnit(JobUnitBase, total=False):
    """``environment``: what the unit's own Environment= sets, of the names that matter to a job."""

    environment: dict[str, str]


class NodeIdentity(TypedDict):
    """A digest of the machine-id ("" without one), and the fingerprints of the host keys as ssh-keygen prints them."""

    machine_id: str
    host_keys: list[str]


class NodeSurvey(NodeSurveyBase, NameLookups, total=False):
    """One look at a node; ``limits``: of the process that looked, ``sysctls``: by name."""

    interfaces: list[Nic]
    routes: dict[str, Route]
    neighbours: NeighbourTable
    sysctls: dict[str, str]
    sockets: SocketSummary
    nft: NftSurvey
    firewalld: FirewalldState
    gpus: GpuSurvey
    kernel_log: list[KernelEvent]
    selinux: SelinuxSurvey
    jobs: list[JobProcess]
    environment: JobEnvironment
    limits: dict[str, int]
    clock: SurveyClock
    rdma: list[RdmaPort]
    efa: EfaSurvey
    legacy_tables: list[str]
    namespaces: list[NetworkNamespace]
    duplicates: list[str]
    hooks: list[PacketHook]
    job_unit: JobUnit
    identity: NodeIdentity
    next_boot: NextBoot


class ParallelLookups(NameLookups):
    """Names that were looked up while listeners and probes were at work."""

    unknown: list[MissingFact]
