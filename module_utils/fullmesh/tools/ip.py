# Copyright (c) the Fullmesh contributors
# SPDX-License-Identifier: MIT
"""Read interfaces, addresses, routes, rules and neighbours from ip(8)."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, TypedDict

from ..foreign_text import list_objects, parse_tool_json

if TYPE_CHECKING:
    from collections.abc import Iterator

SHOW_ADDRESSES = ["ip", "-o", "addr", "show"]
# -d: the kind of a device, the tag of a VLAN and the mode of a bond
SHOW_LINKS = ["ip", "-d", "-j", "addr", "show"]
SHOW_RULES = ["ip", "-j", "rule", "show"]
# Of IPv4, as SHOW_RULES.
SHOW_TABLES = ["ip", "-j", "route", "show", "table", "all"]
ADDRESS = re.compile(r"\d+:\s+([^\s@]+)(?:@\S+)?\s+inet6?\s+(\S+)", re.ASCII)


class IpAddress(TypedDict):
    """An address with its prefix. ``dynamic``: it has a lifetime."""

    address: str
    scope: str
    tentative: bool
    duplicate: bool
    dynamic: bool


class IpLink(TypedDict):
    """An interface.

    Attributes:
        up: it is enabled.
        carrier: a cable is plugged in.
        data: iproute2's info_data of its kind.
        parent: the interface below a VLAN.
    """

    mac: str
    mtu: int
    up: bool
    carrier: bool
    kind: str
    data: dict[str, Any]
    parent: str
    master: str
    addresses: list[IpAddress]


class IpHop(TypedDict):
    """A next hop. ``via`` is empty for a directly connected network."""

    via: str
    dev: str


class IpRoute(IpHop):
    """A route.

    Attributes:
        to: in iproute2's notation (``default``).
        kind: empty for an ordinary route, else ``local``, ``unreachable``, ``blackhole`` ...
        source: the address that it prefers.
        hops: all next hops.
    """

    to: str
    kind: str
    source: str
    protocol: str
    metric: int
    hops: list[IpHop]


class IpRule(TypedDict):
    """The mark and the account that a routing rule selects."""

    mark: str
    uid: int | None


class IpNeighbour(TypedDict):
    """A neighbour's entry. ``states`` is empty if it was never queried."""

    address: str
    dev: str
    mac: str
    states: list[str]


def build_link_command(interface: str) -> list[str]:
    """Build the command that shows everything about one interface except its addresses."""
    return ["ip", "-d", "-j", "link", "show", "dev", interface]


def build_routes_command(family: str) -> list[str]:
    """Build the command that shows the main table of a family, ``-4`` or ``-6``."""
    return ["ip", "-j", family, "route", "show"]


def build_route_command(address: str) -> list[str]:
    """Build the command that shows the route to an address."""
    return ["ip", "-j", "route", "get", address]


def build_neighbours_command(*selector: str) -> list[str]:
    """Build the command that shows neighbours: ``to ADDRESS dev INTERFACE``, all without a selector."""
    return ["ip", "-j", "neigh", "show", *selector]


def parse_addresses(text: str) -> dict[str, list[str]]:
    """Parse `SHOW_ADDRESSES`: the addresses of each interface that has one, with their prefixes."""
    found: dict[str, list[str]] = {}
    for line in text.splitlines():
        if match := ADDRESS.match(line):
            name, address = match.groups()
            if "/" not in address:  # of a point-to-point link
                address += "/128" if ":" in address else "/32"
            found.setdefault(name, []).append(address)
    return found


def parse_objects(text: str) -> list[dict[str, Any]]:
    """Parse the list of objects that ``ip -j`` prints.

    Raises:
        ForeignTextError: it is not JSON, or is larger than any.
    """
    return list_objects(parse_tool_json(text.strip() or "[]"))


def parse_links(text: str) -> dict[str, IpLink]:
    """Parse `SHOW_LINKS`, by interface."""
    return {str(one["ifname"]): read_link(one) for one in parse_objects(text) if one.get("ifname")}


def read_link(one: dict[str, Any]) -> IpLink:
    """Read an interface of `SHOW_LINKS`."""
    flags, info = one.get("flags") or (), one.get("linkinfo") or {}
    return {
        "mac": one.get("address", ""),
        "mtu": one.get("mtu", 0),
        "up": "UP" in flags,
        "carrier": "LOWER_UP" in flags,
        "kind": info.get("info_kind", ""),
        "data": info.get("info_data", {}),
        "parent": one.get("link", ""),
        "master": one.get("master", ""),
        "addresses": list(read_addresses(one.get("addr_info"))),
    }


def read_addresses(addr_info: object) -> Iterator[IpAddress]:
    """Read the addresses of an interface."""
    for info in list_objects(addr_info):
        if info.get("local"):
            yield {
                "address": "{}/{}".format(info["local"], info.get("prefixlen")),
                "scope": info.get("scope", ""),
                "tentative": bool(info.get("tentative")),
                "duplicate": bool(info.get("dadfailed")),
                "dynamic": bool(info.get("dynamic")),
            }


def parse_routes(text: str) -> list[IpRoute]:
    """Parse ``ip -j route show`` or ``get``."""
    return [
        {
            "to": one.get("dst", ""),
            "kind": one.get("type", ""),
            "source": one.get("prefsrc", ""),
            **read_hop(one),
            "protocol": one.get("protocol", "boot"),  # which iproute2 leaves out
            "metric": one.get("metric", 0),
            "hops": [
                {**read_hop(hop), "dev": hop.get("dev", one.get("dev", ""))}
                for hop in list_objects(one.get("nexthops")) or [one]
            ],
        }
        for one in parse_objects(text)
    ]


def read_hop(one: dict[str, Any]) -> IpHop:
    """Read the next hop of a route."""
    return {"via": one.get("gateway", ""), "dev": one.get("dev", "")}


def parse_rules(text: str) -> list[IpRule]:
    """Parse `SHOW_RULES`."""
    return [
        {
            "mark": str(one.get("fwmark", "")).split("/", maxsplit=1)[0],
            "uid": uid if isinstance(uid := one.get("uid_start"), int) else None,
        }
        for one in parse_objects(text)
    ]


def parse_neighbours(text: str) -> list[IpNeighbour]:
    """Parse ``ip -j neigh show``."""
    return [
        {
            "address": one.get("dst", ""),
            "dev": one.get("dev", ""),
            "mac": one.get("lladdr", ""),
            "states": one.get("state") or [],
        }
        for one in parse_objects(text)
    ]
