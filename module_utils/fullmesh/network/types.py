# Copyright (c) the Fullmesh contributors
# SPDX-License-Identifier: MIT
"""Define the data types of static_ip: wanted links, and the kernel's links. Standard library only."""

from __future__ import annotations

from typing import Any, Optional, TypedDict

from ..schema.links import BondLink, PlannedRoute, VlanLink

Files = dict[str, str]
# New content of files, None to remove.
Changes = dict[str, Optional[str]]


# --- as it is wanted ----------------------------------------------------------------------------


class LinkRequired(TypedDict):
    """An entry of the cluster plan with the node's own names. Addresses have their prefix lengths."""

    interface: str
    addresses: list[str]


class LinkSettings(LinkRequired, total=False):
    """A link. ``alone``: no other netplan file defines the VLAN's parent (added for netplan).

    ``rail``: the rail that it belongs to. ``table``: the routing table of that rail, 0 for none.
    """

    mac: str
    gateway: str
    dns: list[str]
    search: list[str]
    mtu: int | None
    routes: list[PlannedRoute]
    vlan: VlanLink | None
    bond: BondLink | None
    alone: bool
    rail: str
    table: int
    pattern: str


# --- as the kernel has it -----------------------------------------------------------------------


class SeenRoute(TypedDict):
    """A route over a next hop."""

    to: str
    via: str
    dev: str


class DetailedRoute(SeenRoute):
    """A route with its family and protocol. ``via`` is empty for a directly connected network."""

    family: int
    protocol: str


class KernelLink(TypedDict):
    """An interface in a snapshot. ``leases`` are restored by their servers."""

    up: bool
    mtu: int
    master: str
    kind: str
    data: dict[str, Any]
    parent: str
    addresses: list[str]
    leases: list[str]


class KernelRoute(TypedDict):
    """A route in a snapshot, in the format of ``ip route``. ``family`` is -4 or -6."""

    family: str
    to: str
    via: str
    dev: str
    metric: int
    protocol: Any


class KernelState(TypedDict):
    """A snapshot of the kernel's state."""

    links: dict[str, KernelLink]
    routes: list[KernelRoute]


class OwnerState(KernelState, total=False):
    """An owner's snapshot: the kernel's state, and the owner's own.

    Attributes:
        remade: devices that the change and the rollback create again.
        profiles: of NetworkManager, by device.
        networkd: whether systemd-networkd runs (netplan).
        systemd: its version (networkd).
        ifstate: the interfaces that ifupdown considers up.
        dhcp_clients: pid files of the running ones, by interface.
        ipv6: autoconf and accept_ra of the kernel.
    """

    remade: list[str]
    profiles: dict[str, str]
    networkd: bool
    systemd: int
    ifstate: list[str]
    dhcp_clients: dict[str, list[str]]
    ipv6: dict[str, dict[str, str]]
