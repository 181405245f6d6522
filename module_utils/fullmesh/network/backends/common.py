# Copyright (c) the Fullmesh contributors
# SPDX-License-Identifier: MIT
"""What all backends of static_ip share: words about a link. Stdlib only.

A link is an entry of the cluster plan with the names that the node has: {interface, mac, addresses, gateway, dns,
search, mtu, routes, vlan, bond}. ``run(argv) -> (rc, out, err)``, ``read(path) -> text or ""`` and
``listed(pattern) -> paths`` are handed in, so that everything here runs without a node.
"""

from __future__ import annotations

import ipaddress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from ...schema.links import Bond, RouteWanted, Vlan
    from ..types import Changes, Link

    Commands = list[list[str]]
    Reader = Callable[[str], str]
    Lister = Callable[[str], list[str]]

NAME = "fullmesh-"
HEAD = "# Ansible managed: role static_ip of Fullmesh; changes made here are lost.\n"
# Before each line of somebody else that we put out of force.
MARK = "# fullmesh: "


def version(text: str) -> int:
    """4 or 6, of an address with or without prefix."""
    return ipaddress.ip_interface(text).version


def of_family(values: Iterable[str], family: int) -> list[str]:
    """Those of *values* that are IPv4 or IPv6."""
    return [value for value in values if version(value) == family]


def wanted_routes(link: Link) -> list[RouteWanted]:
    """The gateway as a route, and the routes; 0.0.0.0/0 is what every netplan knows (22.04: 0.104)."""
    routes = list(link.get("routes", []))
    if link.get("gateway"):
        to = DEFAULTS[version(link["gateway"])]
        routes.insert(0, {"to": to, "via": link["gateway"]})
    return routes


# A default route as `ip` takes it back, a family.
DEFAULTS = {4: "0.0.0.0/0", 6: "::/0"}


def gateway_of(link: Link, family: int) -> str:
    """The next hop of the link's default route of a family; a link has one gateway, the other family's is a route."""
    wide = (one["via"] for one in wanted_routes(link) if one["to"] == DEFAULTS[family])
    return next(wide, "")


def narrow_routes(link: Link, family: int) -> list[RouteWanted]:
    """The routes of a family without the default one."""
    routes = [one for one in link.get("routes", []) if version(one["to"]) == family]
    return [one for one in routes if one["to"] != DEFAULTS[family]]


def bond_of(link: Link) -> Bond:
    """What the link says of its bond; {} where it is none."""
    return link.get("bond") or {}


def vlan_of(link: Link) -> Vlan:
    """What the link says of its VLAN; {} where it is none."""
    return link.get("vlan") or {}


def members(links: Iterable[Link]) -> dict[str, Link]:
    """Member interface -> the bond that takes it."""
    return {name: link for link in links for name in bond_of(link).get("members", [])}


def stacked(links: Iterable[Link], parent: str) -> list[str]:
    """The VLANs that sit on *parent*."""
    return [link["interface"] for link in links if vlan_of(link).get("parent") == parent]


def bare_parents(links: Iterable[Link]) -> list[str]:
    """Interfaces that only carry our VLANs: their own addresses are somebody else's."""
    every = list(links)
    own = {link["interface"] for link in every}
    found = [vlan_of(link)["parent"] for link in every if vlan_of(link)]
    return [name for name in dict.fromkeys(found) if name not in own]


def ordered(links: Iterable[Link]) -> list[Link]:
    """What others stand on comes first: cards and bonds, then VLANs."""
    return sorted(links, key=lambda link: bool(vlan_of(link)))


def touched(links: Iterable[Link]) -> list[str]:
    """Every interface whose state changes with *links*: members of bonds, cards and bonds, VLANs."""
    every = list(links)
    names = [*members(every), *(link["interface"] for link in ordered(every))]
    return list(dict.fromkeys(names))


def cards(links: Iterable[Link]) -> list[str]:
    """Interfaces of *links* with hardware of their own; a VLAN or bond has the address of another one."""
    every = list(links)
    plain = [one["interface"] for one in every if not vlan_of(one) and not bond_of(one)]
    return list(dict.fromkeys([*members(every), *plain]))


def hardware(read: Reader, names: Iterable[str]) -> set[str]:
    """The permanent hardware addresses of *names*; a bond's member shows the bond's in its place."""
    found = set()
    for name in names:
        base = "/sys/class/net/" + name + "/"
        found.add((read(base + "bonding_slave/perm_hwaddr") or read(base + "address")).strip())
    return {one.lower() for one in found if one}


# bonding.txt of the kernel: option -> what the plan calls it is the same word
BOND_OPTIONS = (
    "mode",
    "miimon",
    "updelay",
    "downdelay",
    "lacp_rate",
    "xmit_hash_policy",
    "ad_select",
    "primary",
)


def bond_options(link: Link) -> list[tuple[str, str]]:
    """The kernel's options of a bond, in the order in which the kernel takes them (mode first)."""
    bond: Mapping[str, object] = bond_of(link)
    return [(key, str(bond[key])) for key in BOND_OPTIONS if bond.get(key) not in (None, "")]


class ForeignError(ValueError):
    """A file of somebody else that fights with ours and that we do not dare to edit."""


# How each of them is kept where it does not hang on one profile of NetworkManager.
KEPT_ELSEWHERE = {
    "zone": "give firewalld the interface itself (firewall-cmd --permanent --zone=ZONE --change-interface=NAME)",
    "MAC": "give the card its address in a systemd.link(5) file (MACAddress=)",
    "card": "give the card its settings in a systemd.link(5) file or a unit of your own",
    "802.1X": "leave this interface's addresses as they are (static_ip_manage: false)",
    "rules": "leave this interface's addresses as they are (static_ip_manage: false)",
}


def refuse_lost(path: str, lost: list[tuple[str, str]]) -> None:
    """Refuse to replace a profile that gives more than addresses: that would be gone, at the next boot if not at once.

    Args:
        path: the profile.
        lost: (a word of KEPT_ELSEWHERE, the setting as it stands there).

    Raises:
        ForeignError: there is any.
    """
    if lost:
        kinds = dict.fromkeys(kind for kind, _ in lost)
        raise ForeignError(
            "{} gives its interface {}, which a profile of ours would not: {}; then take it out of there".format(
                path,
                ", ".join(one for _, one in lost),
                "; ".join(dict.fromkeys(KEPT_ELSEWHERE[kind] for kind in kinds)),
            )
        )


def commented(line: str) -> str:
    """A line of somebody else, out of force, still there to be read; works in every format that we edit."""
    if not line.strip():
        return line  # its end is blank as well, and what comes next must not end up behind our mark
    indent = line[: len(line) - len(line.lstrip())]
    return indent + MARK + line.lstrip()


CLOUD_INIT = "/etc/cloud/cloud.cfg.d/99-fullmesh-network.cfg"
# What cloud-init writes at the head of network files ("Created by cloud-init on instance boot automatically",
# "generated from information provided by the datasource").
CLOUD_INIT_WORDS = ("cloud-init", "provided by the datasource")


def cloud_init(read: Reader, changes: Changes) -> Changes:
    """Keep cloud-init from writing its network files again, where it wrote one that changes.

    The drop-in is the one that cloud-init's own files name (network: {config: disabled}).
    """
    for path in changes:
        if "cloud-init" in path or any(word in read(path)[:600] for word in CLOUD_INIT_WORDS):
            return {CLOUD_INIT: HEAD + "network: {config: disabled}\n"}
    return {}
