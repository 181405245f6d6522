# Copyright (c) the Fullmesh contributors
# SPDX-License-Identifier: MIT
"""Find a node's networks and neighbors, and the programs that configure them. Standard library only."""

from __future__ import annotations

import ipaddress
from typing import TYPE_CHECKING

from ..facts import neighbors
from ..files import split_lines, split_words
from ..node_values import ADDRESS, INTERFACE_NAME, SEARCH_DOMAIN
from . import owner
from .backends import common
from .machine import read_ssh_session

if TYPE_CHECKING:
    from ..schema.first_look import Default, Ways
    from .machine import NetworkNode

# resolved writes the servers that it uses to the first file, and its own address to the second (systemd-resolved(8)).
RESOLVERS = ("/run/systemd/resolve/resolv.conf", "/etc/resolv.conf")
DYNAMIC = ("dhcp", "ra")
CABLED = ("", "veth")  # kinds of a NIC, and of a container's end of a cable


def parse_resolv_conf(text: str) -> tuple[list[str], list[str]]:
    """Return the name servers and search domains in a resolv.conf(5), without servers on the node itself.

    Other words are left out, because the controller rejects them (node_values).
    """
    servers: list[str] = []
    search: list[str] = []
    for line in split_lines(text):
        words = split_words(line)
        if len(words) > 1 and words[0] == "nameserver":
            try:
                address = ipaddress.ip_address(words[1])
                if ADDRESS.match(words[1]) and not address.is_loopback:
                    servers.append(words[1])
            except ValueError:
                continue
        elif len(words) > 1 and words[0] == "search":
            search = [word for word in words[1:] if SEARCH_DOMAIN.match(word)]
    return servers, search


def observe_network(node: NetworkNode) -> Ways:
    """Return the node's owners, default routes, leases, name servers, ports and neighbors."""
    routes = [one for one in node.every_route() if one["to"] in common.DEFAULTS.values()]
    defaults: list[Default] = [
        {
            "family": one["family"],
            "via": one["via"],
            "dev": one["dev"],
            "dynamic": one["protocol"] in DYNAMIC,
        }
        for one in routes
        if INTERFACE_NAME.match(one["dev"])
    ]
    seen = {name: one for name, one in node.links().items() if INTERFACE_NAME.match(name)}
    dns, search = next(
        (found for found in (parse_resolv_conf(node.read(path)) for path in RESOLVERS) if found[0]),
        ([], []),
    )
    routed = {one["dev"] for one in defaults}
    nics = [
        name
        for name, one in seen.items()
        if one["carrier"]
        and one["kind"] in CABLED
        and not one["master"]
        and name not in (*routed, "lo")
    ]
    neighbors.greet_neighbors(nics)
    found: Ways = {
        "owners": {name: owner.find_owner(node.run, node.read, node.listed, name) for name in seen},
        "defaults": defaults,
        "leased": sorted(
            name
            for name, one in seen.items()
            if any(address["dynamic"] for address in one["addresses"])
        ),
        "dns": dns,
        "search": search,
        "session": read_ssh_session(),
        "ports": neighbors.list_nic_ports(node),
        "neighbors": neighbors.list_neighbors(node, nics),
    }
    if lldp := neighbors.list_lldp_neighbors(node, nics):
        found["lldp"] = lldp
    return found
