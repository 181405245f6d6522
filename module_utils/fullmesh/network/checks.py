# Copyright (c) the Fullmesh contributors
# SPDX-License-Identifier: MIT
"""Refuse unsafe changes of a node's links before anything is written. Standard library only."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from ..transaction import session
from . import owner as network_owner
from . import reach, static_ip
from .backends import common, ifupdown
from .machine import LinkError, NetworkNode, read_ssh_session

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ..tools.ip import IpLink
    from .types import DetailedRoute, LinkSettings

ETHERNET = "1"  # ARPHRD_ETHER, linux/if_arp.h


def is_virtual_link(link: LinkSettings) -> bool:
    """Return whether the link creates the interface."""
    return bool(link.get("vlan") or link.get("bond"))


def list_required_interfaces(link: LinkSettings) -> list[str]:
    """Return the interfaces that a link requires."""
    bond, vlan = common.get_bond(link), common.get_vlan(link)
    return list(bond.get("members", [])) or [vlan.get("parent") or link["interface"]]


def get_vlan_parent(link: LinkSettings) -> str:
    """Return the parent of a VLAN, or ""."""
    return common.get_vlan(link).get("parent", "")


def refuse_missing_interfaces(links: list[LinkSettings], seen: Mapping[str, IpLink]) -> None:
    """Refuse a missing interface that no link creates."""
    made = {link["interface"] for link in links if is_virtual_link(link)}
    for link in links:
        for name in list_required_interfaces(link):
            if name not in seen and name not in made:
                raise LinkError(
                    "[IP-101] There is no interface {!r} (found: {}). "
                    "Fix: set fullmesh_interface to one of them, or to its MAC.".format(
                        name, ", ".join(sorted(seen))
                    )
                )


def explain_unsupported(node: NetworkNode, interface: str) -> str:
    """Return why this interface cannot be configured as plain Ethernet, or ""."""
    base = "/sys/class/net/" + interface
    for part in ("bonding", "bridge"):
        if os.path.isdir(node.root + base + "/" + part):
            return "it is a " + {"bonding": "bond", "bridge": "bridge"}[part]
    if os.path.exists(node.root + "/proc/net/vlan/" + interface):
        return "it is a VLAN"
    kind = node.read(base + "/type").strip()
    return "" if kind == ETHERNET else f"it is not an Ethernet interface (ARPHRD type {kind})"


def find_providers(node: NetworkNode, links: list[LinkSettings], wanted: str) -> dict[str, str]:
    """Return the provider of each link. Refuse links that no backend can configure."""
    for link in links:
        why = "" if is_virtual_link(link) else explain_unsupported(node, link["interface"])
        if why:
            raise LinkError(
                "[IP-103] {} cannot be configured by Fullmesh: {}. Fix: describe it in the link (vlan, bond), or "
                "give it its address with your own tool and set static_ip_manage: false.".format(
                    link["interface"], why
                )
            )
    if wanted != "auto":
        return {link["interface"]: wanted for link in links}
    found, why_not = network_owner.find_link_owners(node.run, node.read, node.listed, links)
    for name, why in sorted(why_not.items()):
        raise LinkError(
            f"[IP-102] {name} cannot be configured: {why}. "
            "Fix: install and start NetworkManager, netplan, systemd-networkd or "
            "ifupdown (see `nmcli device`), or configure the address yourself and set static_ip_manage: false."
        )
    return found


def refuse_missing_tables(links: list[LinkSettings], owners: Mapping[str, str]) -> None:
    """Refuse rails in one network if their owner has no routing tables and rules."""
    lacking = [link for link in links if link.get("table")]
    for link in lacking:
        if owners[link["interface"]] == ifupdown.NAME:
            raise LinkError(
                "[IP-123] {} is a rail in a network with other rails, which needs a routing table of its own, and "
                "ifupdown has none. Fix: give each rail a network of its own, or let NetworkManager, netplan or "
                "systemd-networkd configure it.".format(link["interface"])
            )


def refuse_duplicate_addresses(
    links: list[LinkSettings], seen: Mapping[str, IpLink], fresh: bool
) -> None:
    """Probe the IPv4 addresses that are new (*fresh*) or present. The kernel does this for IPv6."""
    for link in links:
        state = seen.get(link["interface"])
        if state is None or not state["carrier"]:
            continue
        have = {one["address"].split("/")[0] for one in state["addresses"]}
        for value in static_ip.of_family(link["addresses"], 4):
            address = value.split("/")[0]
            # with another prefix it is the node's own already
            if fresh == (address in have):
                continue
            owner = reach.find_duplicate_host(link["interface"], seen, address)
            if owner:
                raise LinkError(
                    "[IP-105] {} is already used on the link of {} by the host with MAC {}. "
                    "Fix: give this node another address, or remove it from that host.".format(
                        address, link["interface"], owner
                    )
                )


def refuse_lost_default_route(
    links: list[LinkSettings],
    changing: list[LinkSettings],
    seen: Mapping[str, IpLink],
    routes: list[DetailedRoute],
) -> None:
    """Refuse to drop a default route, probably by mistake: ssh would need it at the next boot."""
    for route in static_ip.find_lost_default_routes(links, changing, seen, routes):
        link = next(
            one for one in links if route["dev"] in network_owner.list_affected_interfaces([one])
        )
        via, to, family, interface = route["via"], route["to"], route["family"], route["dev"]
        key = (
            f'routes: [{{to: "{to}", via: "{via}"}}]' if link.get("gateway") else f"gateway: {via}"
        )
        addresses = ", ".join(f'"{one}"' for one in link["addresses"])
        raise LinkError(
            f"[IP-119] {interface} carries the IPv{family} default route of this node (via {via}), which would be lost,"
            " since no link has it. Fix: replace fullmesh_address and fullmesh_interface by "
            f"`fullmesh_links: [{{interface: {link['interface']}, addresses: [{addresses}], {key}}}]`. If you do not "
            f"need it, remove it first: `ip -{family} route del default dev {interface}`. If another tool manages the "
            "addresses, set static_ip_manage: false."
        )


def refuse_dropped_interfaces(
    lost: dict[str, list[str]],
    links: list[LinkSettings],
    routes: list[DetailedRoute],
) -> None:
    """Refuse to drop an interface that ssh needs, because it would stay down at the next boot."""
    server = session.get_server_address(read_ssh_session())
    why = {name: f"this connection, to {server}" for name in lost if server in lost[name]}
    wide = [one for one in routes if one["to"] in ("0.0.0.0/0", "::/0") and one["protocol"] != "ra"]
    elsewhere = [
        one
        for one in wide
        if one["dev"] not in [*lost, *network_owner.list_affected_interfaces(links)]
    ]
    given = static_ip.list_default_families(links) | {one["family"] for one in elsewhere}
    for route in wide:
        if route["dev"] in lost and route["family"] not in given:
            words = f"the IPv{route['family']} default route of this node (via {route['via']})"
            why.setdefault(route["dev"], words)
    if why:
        raise LinkError(
            "[IP-120] {}: Fullmesh configured this interface, but no link uses it any more, so the next boot would not "
            "bring it up. Fix: add it to fullmesh_links, or undo this node first (playbooks/undo.yml with --limit) "
            "and run again.".format(
                "; ".join("{} carries {}".format(*one) for one in sorted(why.items()))
            )
        )


def refuse_link_faults(faults: list[str], seconds: float) -> None:
    """Raise the error with the values that were read back."""
    if any("used by another host" in fault for fault in faults):
        raise LinkError(
            "[IP-105] {}. Fix: give this node another address, or remove it from that host.".format(
                "; ".join(faults)
            )
        )
    if faults:
        raise LinkError(
            f"[IP-107] The interfaces do not have the wanted settings after {seconds} s: {'; '.join(faults)}. "
            "Check: `nmcli device`, `networkctl status` and `journalctl -b` on the node."
        )
