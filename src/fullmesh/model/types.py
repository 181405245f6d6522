"""The cluster plan as plain data: ``plan.derive_plan`` makes it, Ansible passes it on, and every rule reads it."""

from __future__ import annotations

from typing import Literal, NotRequired, TypedDict

from fullmesh.observed.links import BondLink, PlannedRoute, VlanLink
from fullmesh.observed.node import ResolvedSettings


class DataPorts(TypedDict):
    """The range from which nodes take ports for jobs, both ends included, as firewalld and the kernel write it."""

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
    """The endpoint of torchrun's rendezvous: ``10.0.0.11:29400``."""

    endpoint: str
    port: int


class HostsLine(TypedDict):
    """A line of /etc/hosts."""

    address: str
    names: list[str]


class PlanLink(TypedDict):
    """An interface of a node, by name or MAC, with its settings. ``mtu`` is in bytes, None leaves it unchanged.

    ``vlan`` and ``bond`` are {} if it is neither. ``rail``, ``table``, ``pattern``: only of a rail (`NodeLink`).
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
    rail: NotRequired[str]
    table: NotRequired[int]
    pattern: NotRequired[str]


class PlanRail(TypedDict):
    """One network of a rail, with the address of each node on it. ``cable``: it joins two nodes without a switch."""

    name: str
    network: str
    cable: bool
    members: dict[str, str]


class PlanWireGuard(TypedDict):
    """The tunnel of role wireguard: its interface, its network, and the UDP port on which each node receives."""

    interface: str
    network: str
    port: int


class AutoSettings(TypedDict):
    """A host's settings, if some are left to ``auto``.

    ``ranks``: whether the number of local ranks is auto. ``accelerator``: ``auto``, or the user's value. ``torch``:
    its version. ``lock``: the user's own lock file. ``driver_branch``: the branch that nvidia_driver will install, or
    empty. ``visible``: the number of GPUs that CUDA_VISIBLE_DEVICES leaves to jobs, None for all.
    """

    ranks: bool
    accelerator: str
    torch: str
    lock: str
    driver_branch: str
    visible: int | None


class PlanNode(TypedDict):
    """A node: its ranks, its cluster address without a prefix, the interface with that address, and all its links.

    With WireGuard, *address* and *interface* are those of the tunnel, and *links* has the node's own NICs.

    ``accelerator``: the accelerator of its torch build, such as ``cpu`` or ``cuda13.0``. Empty before the survey.
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


# Clients that may reach a service: the nodes, the controllers, or everybody.
Reach = Literal["peers", "controllers", "everybody"]
Protocol = Literal["tcp", "udp"]


class ServicePort(TypedDict):
    """A port, or a range, on which a service listens (``fullmesh_services``, docs/services.md).

    ``part``: its purpose within the service. ``nodes``: the nodes that listen. ``per_cpu``: the ports that a node
    needs for each of its CPUs.
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
        open_ports: ports that jobs need from peers, as firewalld writes them, ``50000-54095/tcp``, without services.
        services: ports of the services on the nodes.
        reserved_ports: of jobs and services, a range as the kernel writes it, ``10002-13999``.
        peers: every cluster address.
        rails: the networks of ``fullmesh_rails``, if there are any.
        wireguard: the tunnel between the nodes, if role wireguard is on.
        controllers: addresses and networks that must never be locked out.
        nodes: by name, in the order of node ranks.
        auto: by node, the settings that the survey resolves.
        resolved: the result of the survey.
        digests: by node, of all its inputs.
        serial: the number of nodes at a time.
        guessed, assumed, faults: only in a diagnosis, which also works without a valid cluster plan.
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
    rails: NotRequired[list[PlanRail]]
    wireguard: NotRequired[PlanWireGuard]
    nodes: dict[str, PlanNode]
    process_groups: NotRequired[int]
    auto: NotRequired[dict[str, AutoSettings]]
    resolved: NotRequired[ResolvedSettings]
    digests: NotRequired[dict[str, str]]
    serial: NotRequired[list[int | str]]
    guessed: NotRequired[bool]
    assumed: NotRequired[bool]
    faults: NotRequired[list[CodedText]]
