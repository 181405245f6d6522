# Copyright (c) the Fullmesh contributors
# SPDX-License-Identifier: MIT
"""What a link of the cluster plan may be beside a card: planned on the controller, made on the node."""

from __future__ import annotations

from typing import TypedDict


class PlannedRoute(TypedDict):
    """A network and its next hop."""

    to: str
    via: str


class VlanLink(TypedDict, total=False):
    """A VLAN: its tag, and what it stands on; empty where a link is none."""

    id: int
    parent: str


class BondLink(TypedDict, total=False):
    """A bond: its members, and the kernel's options by their own names (bonding.txt); empty where a link is none."""

    members: list[str]
    mode: str
    miimon: int
    updelay: int
    downdelay: int
    lacp_rate: str
    xmit_hash_policy: str
    ad_select: str
    primary: str
