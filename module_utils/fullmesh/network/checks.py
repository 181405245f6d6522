# Copyright (c) the Fullmesh contributors
# SPDX-License-Identifier: MIT
"""What must not be done to a node's links: refused before anything is written. Stdlib only."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from ..transaction import session as way_in
from . import owner as backends
from . import reach
from . import static_ip as text
from .backends import common
from .machine import LinkError, Node, our_session

if TYPE_CHECKING:
    from collections.abc import Mapping

    from .types import EveryRoute, Link, SeenLink

ETHERNET = "1"  # ARPHRD_ETHER, linux/if_arp.h


def made_by_us(link: Link) -> bool:
    """Say whether the interface comes into being with the link."""
    return bool(link.get("vlan") or link.get("bond"))


def below(link: Link) -> list[str]:
    """Name the interfaces that have to be there for a link."""
    bond, vlan = common.bond_of(link), common.vlan_of(link)
    return list(bond.get("members", [])) or [vlan.get("parent") or link["interface"]]


def parent_of(link: Link) -> str:
    """The interface that a VLAN stands on; nothing for others."""
    return common.vlan_of(link).get("parent", "")


def refuse_missing(links: list[Link], seen: Mapping[str, SeenLink]) -> None:
    """Refuse an interface that is not there and does not come with a link."""
    made = {link["interface"] for link in links if made_by_us(link)}
    for link in links:
        for name in below(link):
            if name not in seen and name not in made:
                raise LinkError(
                    "[IP-101] there is no interface {!r}; this node has {}. "
                    "Set fullmesh_interface to one of them, or to its MAC.".format(
                        name, ", ".join(sorted(seen))
                    )
                )


def unsupported(node: Node, interface: str) -> str:
    """Say why nobody may write this interface down as plain Ethernet."""
    base = "/sys/class/net/" + interface
    for part in ("bonding", "bridge"):
        if os.path.isdir(node.root + base + "/" + part):
            return "it is a " + {"bonding": "bond", "bridge": "bridge"}[part]
    if os.path.exists(node.root + "/proc/net/vlan/" + interface):
        return "it is a VLAN"
    kind = node.read(base + "/type").strip()
    return "" if kind == ETHERNET else f"it is no Ethernet interface (ARPHRD type {kind})"


def providers(node: Node, links: list[Link], wanted: str) -> dict[str, str]:
    """Name the provider of each link; refuse what nobody may write down."""
    for link in links:
        why = "" if made_by_us(link) else unsupported(node, link["interface"])
        if why:
            raise LinkError(
                "[IP-103] {} cannot be configured by Fullmesh: {}. Describe it in the link (vlan, bond), or give it "
                "its address with your own tool and set static_ip_manage: false.".format(
                    link["interface"], why
                )
            )
    if wanted != "auto":
        return {link["interface"]: wanted for link in links}
    found, why_not = backends.owners(node.run, node.read, node.listed, links)
    for name, why in sorted(why_not.items()):
        raise LinkError(
            f"[IP-102] {name} cannot be configured: {why}. Install and start NetworkManager, "
            "netplan, systemd-networkd or "
            "ifupdown (see `nmcli device`), or configure the address yourself and set static_ip_manage: false."
        )
    return found


def refuse_duplicates(links: list[Link], seen: Mapping[str, SeenLink], fresh: bool) -> None:
    """Probe the IPv4 addresses that are not ours yet (*fresh*), or those that are; IPv6 is the kernel's job."""
    for link in links:
        state = seen.get(link["interface"])
        if state is None or not state["up"]:
            continue
        have = {one["address"].split("/")[0] for one in state["addresses"]}
        for value in text.of_family(link["addresses"], 4):
            address = value.split("/")[0]
            # with another prefix it is ours already
            if fresh == (address in have):
                continue
            owner = reach.duplicate_of(link["interface"], state["mac"], address)
            if owner:
                raise LinkError(
                    "[IP-105] {} is already used on the link of {} by the host with MAC {}. "
                    "Give this node another address, or take it from that host.".format(
                        address, link["interface"], owner
                    )
                )


def refuse_lost_default(
    links: list[Link],
    changing: list[Link],
    seen: Mapping[str, SeenLink],
    routes: list[EveryRoute],
) -> None:
    """Refuse to drop a default route that nobody may have meant to drop: ssh would miss it at the next boot."""
    for route in text.lost_defaults(links, changing, seen, routes):
        link = next(one for one in links if route["dev"] in backends.touched([one]))
        via, to, family, card = route["via"], route["to"], route["family"], route["dev"]
        key = (
            f'routes: [{{to: "{to}", via: "{via}"}}]' if link.get("gateway") else f"gateway: {via}"
        )
        addresses = ", ".join(f'"{one}"' for one in link["addresses"])
        raise LinkError(
            f"[IP-119] {card} carries the IPv{family} default route of this node (via {via}), and no link names it: it "
            "would go. Write it into the link; in place of fullmesh_address and fullmesh_interface that is "
            f"`fullmesh_links: [{{interface: {link['interface']}, addresses: [{addresses}], {key}}}]`. To do without "
            f"it, take it away first: `ip -{family} route del default dev {card}`. Where another tool keeps the "
            "addresses, set static_ip_manage: false."
        )


def refuse_dropped(
    lost: dict[str, list[str]],
    links: list[Link],
    routes: list[EveryRoute],
) -> None:
    """Refuse to let go of an interface that ssh needs: nothing would bring it up at the next boot."""
    server = way_in.server_of(our_session())
    why = {name: f"this connection, to {server}" for name in lost if server in lost[name]}
    wide = [one for one in routes if one["to"] in ("0.0.0.0/0", "::/0") and one["protocol"] != "ra"]
    elsewhere = [one for one in wide if one["dev"] not in [*lost, *backends.touched(links)]]
    given = text.with_default(links) | {one["family"] for one in elsewhere}
    for route in wide:
        if route["dev"] in lost and route["family"] not in given:
            words = f"the IPv{route['family']} default route of this node (via {route['via']})"
            why.setdefault(route["dev"], words)
    if why:
        raise LinkError(
            "[IP-120] {}: Fullmesh has configured it, and no link means it any more: the next boot would bring nothing "
            "up there. Name it in fullmesh_links beside the others; or undo what was done to this node first "
            "(playbooks/undo.yml with --limit), and run again.".format(
                "; ".join("{} carries {}".format(*one) for one in sorted(why.items()))
            )
        )


def refuse_lacking(faults: list[str], seconds: float) -> None:
    """Name the value that was read back."""
    if any("used by another host" in fault for fault in faults):
        raise LinkError(
            "[IP-105] {}. Give this node another address, or take it from that host.".format(
                "; ".join(faults)
            )
        )
    if faults:
        raise LinkError(
            f"[IP-107] the interfaces are not as wanted after {seconds} s: {'; '.join(faults)}. "
            "See `nmcli device`, `networkctl status` and `journalctl -b` on the node."
        )
