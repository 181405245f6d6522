# Copyright (c) the Fullmesh contributors
# SPDX-License-Identifier: MIT
"""What the parts of static_ip hand to each other: links as they are wanted, and as the kernel has them. Stdlib only."""

from __future__ import annotations

from typing import Any, Optional, TypedDict

from ..schema.links import BondLink, PlannedRoute, VlanLink

Files = dict[str, str]
# What files become: None for removed.
Changes = dict[str, Optional[str]]


# --- as it is wanted ----------------------------------------------------------------------------


class LinkRequired(TypedDict):
    """An entry of the cluster plan with the names that the node has; addresses with their prefix lengths."""

    interface: str
    addresses: list[str]


class LinkSettings(LinkRequired, total=False):
    """``alone``: no other netplan file knows the parent of the VLAN (added for netplan)."""

    mac: str
    gateway: str
    dns: list[str]
    search: list[str]
    mtu: int | None
    routes: list[PlannedRoute]
    vlan: VlanLink | None
    bond: BondLink | None
    alone: bool


# --- as the kernel has it -----------------------------------------------------------------------


class SeenRoute(TypedDict):
    """A route over a next hop."""

    to: str
    via: str
    dev: str


class DetailedRoute(SeenRoute):
    """With its family and who made it; ``via`` is empty on the link."""

    family: int
    protocol: str


class KernelLink(TypedDict):
    """An interface in a snapshot; ``leases`` come back from whoever gave them."""

    up: bool
    mtu: int
    master: str
    kind: str
    data: dict[str, Any]
    parent: str
    addresses: list[str]
    leases: list[str]


class KernelRoute(TypedDict):
    """A route in a snapshot, as ``ip route`` takes it back; ``family`` is -4 or -6."""

    family: str
    to: str
    via: str
    dev: str
    metric: int
    protocol: Any


class KernelState(TypedDict):
    """A snapshot of the kernel's side."""

    links: dict[str, KernelLink]
    routes: list[KernelRoute]


class OwnerState(KernelState, total=False):
    """An owner's snapshot: the kernel's side, and what only the owner knows.

    Attributes:
        remade: devices that the change makes anew, and so does the rollback.
        profiles: of NetworkManager, by device.
        networkd: systemd-networkd runs (netplan); systemd: its version (networkd).
        ifstate: what ifupdown thinks is up; dhclient: pid files; ipv6: autoconf and accept_ra of the kernel.
    """

    remade: list[str]
    profiles: dict[str, str]
    networkd: bool
    systemd: int
    ifstate: list[str]
    dhclient: dict[str, str]
    ipv6: dict[str, dict[str, str]]
