# Copyright (c) the Fullmesh contributors
# SPDX-License-Identifier: MIT
"""What network_ways says: who configures a node's interfaces, and how it reaches the rest of the world."""

from __future__ import annotations

from typing import TypedDict


class Default(TypedDict):
    """A default route; ``via``: the next hop, empty for none; ``dynamic``: of a lease or a router's advertisement."""

    family: int
    via: str
    dev: str
    dynamic: bool


class Ways(TypedDict):
    """``owners``: interface -> NetworkManager, netplan, networkd, ifupdown, empty for nobody; ``leased``: of DHCP.

    ``session``: the words of SSH_CONNECTION that carry us: client, port, server, port; empty without ssh.
    """

    owners: dict[str, str]
    defaults: list[Default]
    leased: list[str]
    dns: list[str]
    search: list[str]
    session: list[str]
