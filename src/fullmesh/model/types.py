"""The cluster plan as plain data: what ``plan.derive_plan`` makes, Ansible hands on, and every rule reads."""

from __future__ import annotations

from typing import Literal, NotRequired, TypedDict

from fullmesh.observed.links import BondLink, PlannedRoute, VlanLink
from fullmesh.observed.node import ResolvedSettings


class DataPorts(TypedDict):
    """The range from which nodes take ports for jobs, both ends included; in firewalld's and in the kernel's words."""

    first: int
    last: int
    size: int
    firewalld: str
    sysctl: str


class Master(TypedDict):
    """The node of rank 0, its cluster address, and the port of the store."""

    node: str
    address: str
    port: int


class Rendezvous(TypedDict):
    """Where torchrun's rendezvous listens: ``10.0.0.11:29400``."""

    endpoint: str
    port: int


class HostsLine(TypedDict):
    """A line of /etc/hosts."""

    address: str
    names: list[str]


class PlanLink(TypedDict):
    """An interface of a node, by name or MAC, with what it gets; ``mtu`` in bytes, None: as it is.

    ``vlan`` and ``bond`` are {} where it is neither.
    """

    interface: str
    mac: str
    addresses: list[str]
    gateway: str
    dns: list[str]
    search: list[str]
    mtu: int | None
    routes: list[PlannedRoute]
    vlan: VlanLink
    bond: BondLink


class AutoSettings(TypedDict):
    """What a host's settings say where something is left to ``auto``.

    ``ranks``: the number of local ranks is; ``accelerator``: ``auto``, or what was set; ``torch``: its version;
    ``lock``: the user's own; ``driver_branch``: what nvidia_driver will install, empty where it is not asked to;
    ``visible``: GPUs that CUDA_VISIBLE_DEVICES leaves to jobs, None: all.
    """

    ranks: bool
    accelerator: str
    torch: str
    lock: str
    driver_branch: str
    visible: int | None


class PlanNode(TypedDict):
    """A node: its ranks, its cluster address without a prefix, the interface that has it, all its links.

    ``accelerator``: what its torch is made for, ``cpu``, ``cuda13.0``; empty where nobody could look.
    """

    name: str
    node_rank: int
    hostname: str
    address: str
    local_ranks: int
    first_rank: int
    ranks: list[int]
    accelerator: NotRequired[str]
    interface: str
    links: list[PlanLink]


# Who may come to a service: the nodes, those who manage them, anybody at all.
Reach = Literal["peers", "controllers", "everybody"]
Protocol = Literal["tcp", "udp"]


class ServicePort(TypedDict):
    """A port, or a range, on which a service listens (``fullmesh_services``, docs/services.md).

    ``part``: what it is for, within the service; ``nodes``: where; ``per_cpu``: ports for each CPU of a node at least.
    """

    service: str
    part: str
    first: int
    last: int
    protocol: Protocol
    reach: list[Reach]
    nodes: list[str]
    per_cpu: NotRequired[int]


class CodedText(TypedDict):
    """A fault or a note."""

    code: str
    text: str


class ClusterPlan(TypedDict):
    """The cluster plan (docs/architecture.md, "The plan").

    Attributes:
        family: ``ipv4`` or ``ipv6``.
        open_ports: what jobs need of peers, as firewalld writes it, ``50000-54095/tcp``; services' ports come on top.
        services: ports of what else runs over the nodes.
        reserved_ports: of jobs and services, a range as the kernel writes it, ``10002-13999``.
        peers: every cluster address; controllers: addresses and networks that must never be locked out.
        nodes: by name, in the order of node ranks.
        auto: by node, what is left to the first look at it; resolved: what that look decided.
        digests: by node, of all that it is made from; serial: how many nodes at a time.
        guessed, assumed, faults: of a diagnosis alone, which does without a plan that site.yml takes.
    """

    schema: int
    family: str
    world_size: int
    nnodes: int
    master: Master
    rendezvous: Rendezvous
    data_ports: DataPorts
    open_ports: list[str]
    services: NotRequired[list[ServicePort]]
    reserved_ports: list[int | str]
    peers: list[str]
    controllers: list[str]
    hosts: list[HostsLine]
    nodes: dict[str, PlanNode]
    process_groups: NotRequired[int]
    auto: NotRequired[dict[str, AutoSettings]]
    resolved: NotRequired[ResolvedSettings]
    digests: NotRequired[dict[str, str]]
    serial: NotRequired[list[int | str]]
    guessed: NotRequired[bool]
    assumed: NotRequired[bool]
    faults: NotRequired[list[CodedText]]
