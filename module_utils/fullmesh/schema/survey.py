# Copyright (c) the Fullmesh contributors
# SPDX-License-Identifier: MIT
"""The survey of a node (ladder_node with ``survey: true``): all inputs of the rules of verification and diagnosis.

Parts that could not be observed are missing and listed in ``unknown``.
"""

from __future__ import annotations

from typing import Any, Literal, TypedDict, get_args

from .gpu import AmdGpu, FabricManager, GpuCard, PciGpu
from .next_boot import NextBoot


class MissingFact(TypedDict):
    """A missing part and the reason: ``kernel log``, ``in a container the kernel's messages are the host's``."""

    what: str
    why: str


class NicBase(TypedDict):
    """A network interface.

    ``speed`` in Mbit/s, 0 if the driver reports none. ``mtu`` in bytes.

    ``errors``: rx_errors and others, from /sys/class/net/NAME/statistics. ``addresses``: with their prefix.
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


class Nic(NicBase, total=False):
    """``master``: the bridge, bond or VRF that the interface belongs to. ``master_kind``: as in its DEVTYPE."""

    master: str
    master_kind: str


class Route(TypedDict):
    """The answer of ``ip route get`` for an address. ``found``: ``yes``, ``no``, or why the query failed."""

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
    """``by_hand``: it is static, and the kernel never queries it. ``nud``: its state then (PERMANENT, NOARP)."""

    by_hand: bool
    nud: str


class NeighbourTable(TypedDict):
    """The neighbour table: its size, and the entries of the peers."""

    count: int
    entries: dict[str, Neighbour]


class Listener(TypedDict):
    """A listening TCP socket and its process. ``age`` in seconds."""

    address: str
    port: int
    pid: int
    process: str
    command: str
    age: float


class SocketSummary(TypedDict):
    """TCP sockets of the node: how many hold a port of the data range, how many wait in TIME_WAIT, and the total."""

    listening: list[Listener]
    in_range: int
    time_wait: int
    total: int


class NftSurvey(TypedDict):
    """The kernel's packet filter as in ``nft -j list ruleset``. ``cut``: the number of rules that were left out."""

    chains: list[Any]
    rules: list[Any]
    sets: list[Any]
    cut: int


class FirewalldZone(TypedDict):
    """A zone of firewalld. ``rules``: the number of its rich rules."""

    target: str
    ports: list[str]
    services: list[str]
    sources: list[str]
    interfaces: list[str]
    rules: int


class ZoneState(TypedDict):
    """A zone now and in its file. None if the file is missing."""

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
    """A policy now and in its file. None if the file is missing."""

    runtime: FirewalldPolicy
    permanent: FirewalldPolicy | None


class FirewalldStateBase(TypedDict):
    """firewalld: default zone, active zones with their ``sources`` and ``interfaces``, zones, sets of addresses."""

    default: str
    active: dict[str, dict[str, list[str]]]
    zones: dict[str, ZoneState]
    ipsets: dict[str, list[str]]


class FirewalldState(FirewalldStateBase, total=False):
    """The optional policies, since firewalld 0.9."""

    policies: dict[str, PolicyState]


class PciPath(TypedDict):
    """The PCIe path of a GPU or an RDMA interface.

    ``kind``: gpu or rdma. ``numa``: -1 if unknown. ``iommu``: the type of its IOMMU group (DMA and DMA-FQ translate,
    identity does not), empty without one. ``redirecting``: ports of switches above it whose ACS redirects peer traffic
    upstream.
    """

    bus: str
    kind: str
    numa: int
    iommu: str
    redirecting: list[str]


class GpuSurveyBase(TypedDict):
    """The GPUs of a node. ``present``: NVIDIA's driver is loaded. ``cards``: as nvidia-smi shows them."""

    present: bool
    cards: list[GpuCard]


class GpuSurvey(GpuSurveyBase, total=False):
    """The optional parts of a node that has or had a driver.

    ``failed``: the driver is loaded and nvidia-smi fails. ``said``: its output. ``loaded``: the module. ``paths`` and
    ``direct`` (how RDMA reaches a GPU's memory) are only known outside of containers. ``linked``: every two GPUs are
    connected by NVLinks or NVSwitches. Missing if no GPU has one. ``fabric_manager`` is only known outside of
    containers, if NVSwitches or a GPU's fabric require it. ``amd``: AMD's GPUs, also unknown in containers.
    """

    pci: list[PciGpu]
    amd: list[AmdGpu]
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
    """A message of the kernel that explains a failure. ``age`` in seconds."""

    kind: str
    age: float
    text: str


class SelinuxDenial(TypedDict):
    """A denial by SELinux. ``age`` in seconds."""

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


class JobUnitStart(TypedDict):
    """A start of fullmesh-job@: why it failed ("": it did not), and how many seconds it took."""

    error: str
    seconds: float


class JobSlurmStart(TypedDict):
    """The start of a job that a login starts with srun on this node.

    Attributes:
        error: why srun started no task, or "".
        steps: those that failed.
        task: variables of the task, for names that matter to a job.
        sources: the file and line of a variable, for some of them.
        prolog: Slurm's TaskProlog, or "".
        seconds: of all steps together.
    """

    error: str
    steps: list[StartStep]
    task: dict[str, str]
    sources: dict[str, str]
    prolog: str
    seconds: float


class LateSurvey(TypedDict, total=False):
    """The slow parts of a survey: the answers of name servers, a login, and a start of fullmesh-job@ and with srun.

    None for an address without a name or a server without an answer.
    """

    reverse: dict[str, ReverseName | None]
    own_answers: list[str]
    master_answers: list[str]
    job_start: JobLogin
    unit_start: JobUnitStart
    slurm_start: JobSlurmStart


class JobProcess(TypedDict):
    """A process that looks like a rank of a job, with the variables that place it. ``age`` in seconds."""

    pid: int
    command: str
    age: float
    environment: dict[str, str]


class JobVariable(TypedDict):
    """A variable of the environment and the file that sets it."""

    value: str
    source: str


class JobEnvironmentBase(TypedDict):
    """The environment that a job would get, and the settings of each file."""

    values: dict[str, JobVariable]
    files: dict[str, dict[str, str]]


class JobEnvironment(JobEnvironmentBase, total=False):
    """``unread``: the path in NCCL_CONF_FILE, if NCCL cannot open it, which it does not report."""

    unread: str


class SurveyClock(TypedDict):
    """The node's clock, in seconds since 1970, and whether the kernel considers it synchronized."""

    now: float
    synchronised: bool


class Gid(TypedDict):
    """An entry of an RDMA port's GID table."""

    index: int
    type: str
    gid: str


class RdmaPortBase(TypedDict):
    """A port of an RDMA device in /sys/class/infiniband."""

    device: str
    port: int
    state: str
    physical: str
    layer: str
    rate: str
    vendor: str
    gids: list[Gid]


class RdmaPort(RdmaPortBase, total=False):
    """A port with the values that its driver shows.

    Attributes:
        firmware: its version.
        board: the board's id (PSID), the same for all NICs of one product.
        pcie: lanes and speed of the PCIe link, now and at most: the files of the PCI device and their texts.
        flow_control: priorities with PFC and ECN, the priority of DSCP values, and the traffic class, as texts.
    """

    firmware: str
    board: str
    pcie: dict[str, str]
    flow_control: dict[str, str]


class EfaPci(TypedDict):
    """An EFA on the PCI bus, with its driver, if any."""

    slot: str
    driver: str


class EfaVerbs(TypedDict):
    """An EFA as an RDMA device."""

    name: str
    state: str


class Libfabric(TypedDict, total=False):
    """The output of ``fi_info -p efa``: its path, version, domains, exit status."""

    fi_info: str
    version: str
    domains: list[str]
    rc: int
    said: str


class NcclPluginBase(TypedDict):
    """NCCL's network plugin: the path that the loader finds, and the path of another one."""

    path: str
    elsewhere: str


class NcclPlugin(NcclPluginBase, total=False):
    """NCCL's network plugin, and why it could not be loaded."""

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
    """Another network namespace on the machine. ``port_range`` as in its sysctl."""

    pid: int
    commands: list[str]
    port_range: str


class FilesystemSpace(TypedDict):
    """A file system, in bytes."""

    size: int
    free: int


class NodeSurveyBase(TypedDict):
    """The required parts of a survey.

    ``range``: first and last data port. ``manifest``: Fullmesh configured the node.
    """

    root: bool
    range: list[int]
    manifest: bool
    unknown: list[MissingFact]
    shm: FilesystemSpace
    disk: FilesystemSpace
    seconds: float


class PacketHook(TypedDict):
    """A packet hook besides the packet filter: its place (xdp, tc ingress, cgroup egress ...), interface, type."""

    at: str
    card: str
    what: str


class ChangedSetting(TypedDict):
    """A kernel setting that Fullmesh wrote, and its value now."""

    written: str
    now: str


class ShapedQueue(TypedDict):
    """A queue of the cluster's interface that limits the rate of packets, or that loses or delays them: tc(8).

    Attributes:
        card: the interface, or one below it.
        side: of the packets.
        what: the kind of the queue, class or filter.
        rate: in Mbit/s, 0 without a limit.
        loss: share of the packets.
        delay: in ms.
        every: all ordinary packets pass it. Otherwise, a filter selects some.
    """

    card: str
    side: Literal["ingress", "egress"]
    what: str
    rate: float
    loss: float
    delay: float
    every: bool


class JobUnitBase(TypedDict):
    """The restrictions of systemd for job units (fullmesh-job@), as in systemctl show.

    Attributes:
        drop_ins: files that change the unit.
        nofile: open files, -1 for no limit.
        allow, deny: networks. Those in neither are allowed.
        own_network: PrivateNetwork=.
        families: of addresses, RestrictAddressFamilies=, with ``~`` before forbidden ones.
    """

    drop_ins: list[str]
    nofile: int
    allow: list[str]
    deny: list[str]
    own_network: bool
    families: str


class JobUnit(JobUnitBase, total=False):
    """Later parts.

    Attributes:
        environment: the unit's own Environment=, for the names that matter to a job.
        settings: other settings that are not systemd's default, as it shows them.
        blocked: system calls of ranks that SystemCallFilter= forbids.
        missing: settings that name a missing file or account.
        scripts: of the jobs in /etc/fullmesh/jobs.
        load: LoadState=.
    """

    environment: dict[str, str]
    settings: dict[str, str]
    blocked: list[str]
    missing: list[str]
    scripts: list[str]
    load: str


LOCKED_LEAST = 1 << 30  # bytes: RDMA registers all that it sends from (nccl-tests#206)
NO_LOGIN = "the shell of the account refuses logins"
NO_HOME = "the home folder of the account does not exist"
StepKind = Literal[
    "use",
    "device",
    "preload",
    "load",
    "value",
    "name",
    "source",
    "write",
    "cache",
    "resolve",
    "bind",
    "path",
    "python",
    "login",
    "launch",
    "limit",
    "import",
    "slow",
]
START_STEPS = get_args(StepKind)


class StartStep(TypedDict):
    """A step of a job's start that failed.

    Attributes:
        step: ``use``: the account may not use *error*, a part of the path *subject*. ``device``: it may not use the
            device file *subject*; *error* is the group that may, or "". ``preload``: the loader goes on
            without the library *subject*. ``load``: it lacks a library. ``value``: the variable *subject* has an odd
            value. ``name``: no library reads the variable *subject*, and *error* is the nearest name that one reads.
            ``source``: a shell cannot read the file *subject*. ``write``: to the folder *subject*. ``cache``:
            the same of a folder of caches. ``resolve``: a name. ``bind``: a port. ``path``: the variable *subject*
            names the missing file *error*. ``python``: does not start with the variables in *error*. ``login``: ended
            early. ``launch``: the launcher, or a part of it. ``limit``: RLIMIT_*subject*, or the umask, is *error*.
            ``import``: the part *subject* of torch.
        subject: as above.
        error: the system's word, or as above.
        source: the file and line that cause it, "" if unknown.
    """

    step: StepKind
    subject: str
    error: str
    source: str


class JobLogin(TypedDict):
    """The start of a job, as its account.

    Attributes:
        account: its name.
        known: it is the account of jobs. Otherwise it stands for all accounts without special rights.
        steps: those that failed.
        command: variables of a command that ssh runs, for names that matter to a job.
        login: the same for the login shell.
        file: the same of /etc/fullmesh/env, as a shell reads it.
        sources: the file and line of a variable, for some of them.
        seconds: of all steps together.
    """

    account: str
    known: bool
    steps: list[StartStep]
    command: dict[str, str]
    login: dict[str, str]
    file: dict[str, str]
    sources: dict[str, str]
    seconds: float


class NodeIdentity(TypedDict):
    """A digest of the machine-id ("" without one), and the fingerprints of the host keys as ssh-keygen prints them."""

    machine_id: str
    host_keys: list[str]


class TunnelPeerState(TypedDict):
    """A peer of the tunnel: its networks, and the seconds since its last handshake (-1: none)."""

    public_key: str
    networks: list[str]
    age: int


class TunnelState(TypedDict):
    """The tunnel of role wireguard. ``public_key``: empty if its interface is missing."""

    up: bool
    public_key: str
    peers: list[TunnelPeerState]


class NodeSurvey(NodeSurveyBase, LateSurvey, total=False):
    """One survey of a node.

    ``limits``: of the observing process. ``sysctls``: by name. ``legacy_rules``: by family (ip, ip6), as in
    ``iptables-legacy-save``.
    """

    interfaces: list[Nic]
    routes: dict[str, Route]
    neighbours: NeighbourTable
    sysctls: dict[str, str]
    changed_sysctls: dict[str, ChangedSetting]
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
    legacy_rules: dict[str, list[str]]
    namespaces: list[NetworkNamespace]
    duplicates: list[str]
    hooks: list[PacketHook]
    queues: list[ShapedQueue]
    job_unit: JobUnit
    identity: NodeIdentity
    next_boot: NextBoot
    tunnel: TunnelState


class ParallelLookups(LateSurvey):
    """The slow parts of a survey if they ran next to listeners and probes."""

    unknown: list[MissingFact]
