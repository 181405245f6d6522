# Copyright (c) the Fullmesh contributors
# SPDX-License-Identifier: MIT
"""The result of network_ways: which programs configure a node's interfaces, and its routes to other networks."""

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


class Ways(TypedDict):
    """``owners``: interface -> NetworkManager, netplan, networkd, ifupdown, or empty.

    ``leased``: interfaces with DHCP.

    ``session``: the words of this session's SSH_CONNECTION (client, port, server, port), empty without ssh.
    """

    owners: dict[str, str]
    defaults: list[Default]
    leased: list[str]
    dns: list[str]
    search: list[str]
    session: list[str]
