# Copyright (c) the Fullmesh contributors
# SPDX-License-Identifier: MIT
"""The answer of node_facts: a node's state before any decision or change."""

from __future__ import annotations

from typing import TypedDict


class Interface(TypedDict):
    """An interface.

    ``kind``: the kernel's DEVTYPE, empty for a NIC. ``speed`` in Mbit/s, 0 if unknown.

    ``addresses``: with their prefix, without link-local IPv6.
    """

    name: str
    kind: str
    mac: str
    mtu: int
    state: str
    carrier: bool
    speed: int
    addresses: list[str]


class PortGid(TypedDict):
    """A used entry of an RDMA port's GID table, and its interface."""

    index: int
    type: str
    gid: str
    interface: str


class Port(TypedDict):
    """A port of an RDMA device. ``layer``: ``InfiniBand`` or ``Ethernet``."""

    device: str
    port: int
    driver: str
    layer: str
    active: bool
    gids: list[PortGid]


class Accelerator(TypedDict):
    """A device on the PCI bus. ``vendor``: nvidia, amd, ascend, gaudi. ``driver``: its driver, or empty."""

    vendor: str
    bus: str
    device: str
    driver: str


class Accelerators(TypedDict):
    """The PCI devices, the loaded NVIDIA driver (``580.95.05`` or empty) and the number of GPUs it shows."""

    devices: list[Accelerator]
    nvidia_driver: str
    nvidia_shown: int


class Observations(TypedDict):
    """The observed state.

    Sizes are in bytes, ``epoch`` in seconds since 1970. ``boot`` differs after a restart.

    ``free_bytes``: by path. ``venv``: the path of the jobs' environment. ``torch_there``: Fullmesh made one.
    """

    epoch: float
    boot: str
    root: bool
    ssh_connection: str
    interfaces: list[Interface]
    listening_ports: list[int]
    free_bytes: dict[str, int]
    venv: str
    torch_there: bool
    memory_bytes: int
    cpus: int
    container: str
    gpus: int
    accelerators: Accelerators
    hcas: list[str]
    rdma: list[Port]
    selinux: str
    proxy: dict[str, str]
    systemd: bool


class PythonVersion(TypedDict):
    """The first two numbers of a version."""

    major: int
    minor: int


class Python(TypedDict):
    """The interpreter of modules."""

    executable: str
    version: PythonVersion


class Facts(TypedDict):
    """Ansible's own names for the platform, and ``fullmesh``."""

    distribution: str
    distribution_version: str
    distribution_major_version: str
    distribution_release: str
    os_family: str
    os_name: str
    pkg_mgr: str
    service_mgr: str
    hostname: str
    nodename: str
    fqdn: str
    architecture: str
    kernel: str
    python: Python
    python_version: str
    fullmesh: Observations


class ResolvedSettings(TypedDict, total=False):
    """Values that a plan derived from the nodes for inventory settings with ``auto``."""

    local_ranks: int
    accelerator: str


class Membership(TypedDict, total=False):
    """A node's record of the list of nodes: its digest, and the number of ranks that its kernel settings have room for.

    ``nodes``: their names, which node_facts does not return.
    """

    digest: str
    room: int
    nodes: list[str]


class PendingChange(TypedDict):
    """A transaction that is waiting for confirmation or is being reverted.

    ``what``: a short description. ``since``: UTC, for people. ``seconds``: until the node reverts it, 0 if it is due.
    """

    name: str
    what: str
    since: str
    seconds: int


class NodeFacts(TypedDict):
    """The answer of node_facts.

    ``resolved``: values of the last applied plan. ``busy``: users that work on it now.

    ``members``: its record of the list of nodes, {} if it has none. ``pending``: changes that their run has not
    confirmed.
    """

    ansible_facts: Facts
    notes: list[dict[str, str]]
    drift: list[str]
    resolved: ResolvedSettings
    members: Membership
    busy: list[str]
    pending: list[PendingChange]
