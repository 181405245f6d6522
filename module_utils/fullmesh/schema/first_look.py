# Copyright (c) the Fullmesh contributors
# SPDX-License-Identifier: MIT
"""The result of network_ways: a node's interfaces with the programs that configure them, its routes and neighbors."""

from __future__ import annotations

from typing import TypedDict


class Default(TypedDict):
    """A default route.

    ``via``: the next hop or empty. ``dynamic``: it came from a lease or a router advertisement.
    """

    family: int
    via: str
    dev: str
    dynamic: bool


class NicPort(TypedDict):
    """A NIC. ``stacked``: it belongs to a bond or bridge, or carries a VLAN.

    ``chip``: the RDMA chip's ``sys_image_guid``, or empty. ``port``: its physical port (``p0``), or empty. NICs with
    the same chip and port share a cable.
    """

    nic: str
    stacked: bool
    chip: str
    port: str


class NicNeighbor(TypedDict):
    """A hardware address that answered on a NIC."""

    nic: str
    mac: str


class LldpNeighbor(TypedDict):
    """A switch or a host that LLDP has heard on a NIC: its name, and its port's name and hardware address, if known."""

    nic: str
    mac: str
    system: str
    port: str


class HeardByLldp(TypedDict, total=False):
    """``lldp``: of the same NICs as ``neighbors``, if lldpd runs and may be queried."""

    lldp: list[LldpNeighbor]


class Ways(HeardByLldp):
    """``owners``: interface -> NetworkManager, netplan, networkd, ifupdown, or empty.

    ``leased``: interfaces with DHCP.

    ``neighbors``: of NICs without a default route.

    ``session``: the words of this session's SSH_CONNECTION (client, port, server, port), empty without ssh.
    """

    owners: dict[str, str]
    defaults: list[Default]
    leased: list[str]
    dns: list[str]
    search: list[str]
    session: list[str]
    ports: list[NicPort]
    neighbors: list[NicNeighbor]
