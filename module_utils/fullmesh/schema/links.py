# Copyright (c) the Fullmesh contributors
# SPDX-License-Identifier: MIT
"""Kinds of links in the cluster plan apart from physical interfaces: planned on the controller, created on the node."""

from __future__ import annotations

from typing import TypedDict

# Rails in one network: the first routing table, which is also the priority of its rule, and the number of tables.
RAIL_TABLE = 30100
RAIL_TABLES = 100
# The tunnel of role wireguard. A session ends 180 s after its handshake (WireGuard's paper, table 4).
TUNNEL_INTERFACE = "fullmesh-wg"
TUNNEL_SESSION_SECONDS = 180


class PlannedRoute(TypedDict):
    """A network and its next hop."""

    to: str
    via: str


class VlanLink(TypedDict, total=False):
    """A VLAN: its tag and its parent. Empty if a link is none."""

    id: int
    parent: str


class BondLink(TypedDict, total=False):
    """A bond: its members, and options by their kernel names (bonding.txt). Empty if a link is none."""

    members: list[str]
    mode: str
    miimon: int
    updelay: int
    downdelay: int
    lacp_rate: str
    xmit_hash_policy: str
    ad_select: str
    primary: str
