# Copyright (c) the Fullmesh contributors
# SPDX-License-Identifier: MIT
"""Define code that all backends of static_ip share.

Standard library only.

A link is an entry of the cluster plan with the node's own names: {interface, mac, addresses, gateway, dns, search, mtu,
routes, vlan, bond}. The functions ``run(argv) -> (rc, out, err)``, ``read(path) -> text or ""`` and ``listed(pattern)
-> paths`` are parameters, so that all of this runs without a node.
"""

from __future__ import annotations

import ipaddress
import re
from typing import TYPE_CHECKING, NamedTuple, Protocol

from ...files import SPACE, split_words

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from ...commands import SplitRunner
    from ...schema.links import BondLink, PlannedRoute, VlanLink
    from ..types import Changes, Files, LinkSettings, OwnerState

    Commands = list[list[str]]
    Reader = Callable[[str], str]
    Lister = Callable[[str], list[str]]


class NetworkBackend(Protocol):
    """A module that writes for one owner of interfaces.

    Attributes:
        OURS: glob patterns of Fullmesh's files.
        READS: glob patterns of further files that `check_files` needs.
    """

    NAME: str
    OURS: list[str]
    READS: list[str]

    def build_files(self, links: list[LinkSettings]) -> Files:
        """Build Fullmesh's complete files for all links of this backend: path -> text."""

    def get_file_mode(self, path: str) -> int:
        """Return the mode of one of these files."""

    def find_foreign_changes(
        self, read: Reader, listed: Lister, links: list[LinkSettings]
    ) -> Changes:
        """Return the new text of foreign files (None: removed) that have to change, and always the drop-ins.

        Raises:
            ForeignError: a foreign file cannot be changed.
        """

    def check_files(self, run: SplitRunner, scratch: Files) -> str:
        """Return the tool's error about the files of `build_scratch_files`, or ""."""

    def read_snapshot(self, run: SplitRunner, names: list[str]) -> OwnerState:
        """Read the run-time state of interfaces, as JSON.

        The caller adds "remade": devices that the rollback has to create again (`with_remade`).
        """

    def build_activation_commands(
        self,
        links: list[LinkSettings],
        before: OwnerState,
        wait: int = 30,
        names: list[str] | None = None,
    ) -> Commands:
        """Build the commands after the files are written. Only *names* are brought up.

        The first one that fails ends the change.
        """

    def build_reactivation_commands(self, names: list[str], before: OwnerState) -> Commands:
        """Build the commands after the old files are restored.

        All run, even after failures, because a tool may fail if its state is already right.
        """


NAME = "fullmesh-"
HEAD = "# Ansible managed: role static_ip of Fullmesh; changes made here are lost.\n"
# Prefix of each foreign line that Fullmesh disables.
MARK = "# fullmesh: "


def ip_version_of(text: str) -> int:
    """Return the IP version (4 or 6) of an address with or without prefix."""
    return ipaddress.ip_interface(text).version


def of_family(values: Iterable[str], family: int) -> list[str]:
    """Return the IPv4 or IPv6 values."""
    return [value for value in values if ip_version_of(value) == family]


def wanted_routes(link: LinkSettings) -> list[PlannedRoute]:
    """Return the routes, with the gateway as a route. 0.0.0.0/0 works in every netplan (22.04: 0.104)."""
    routes = list(link.get("routes", []))
    if link.get("gateway"):
        to = DEFAULTS[ip_version_of(link["gateway"])]
        routes.insert(0, {"to": to, "via": link["gateway"]})
    return routes


# A default route as `ip` takes it back, a family.
DEFAULTS = {4: "0.0.0.0/0", 6: "::/0"}


def get_gateway(link: LinkSettings, family: int) -> str:
    """Return the next hop of the link's default route of a family. The second family's gateway is in the routes."""
    wide = (one["via"] for one in wanted_routes(link) if one["to"] == DEFAULTS[family])
    return next(wide, "")


def list_specific_routes(link: LinkSettings, family: int) -> list[PlannedRoute]:
    """Return the routes of a family without the default route."""
    routes = [one for one in link.get("routes", []) if ip_version_of(one["to"]) == family]
    return [one for one in routes if one["to"] != DEFAULTS[family]]


class RailTable(NamedTuple):
    """The routing table of a rail: its number, which is also the rule's priority, the network and the own address."""

    number: int
    network: str
    source: str


def get_rail_table(link: LinkSettings) -> RailTable | None:
    """Return the routing table of a rail that shares its network with another one, else None.

    A rule sends packets from the rail's address to this table, so that they leave by its own NIC.
    """
    number = link.get("table", 0)
    if not number:
        return None
    address = ipaddress.ip_interface(link["addresses"][0])
    return RailTable(number, str(address.network), str(address.ip))


def get_bond(link: LinkSettings) -> BondLink:
    """Return the link's bond settings, or {} if it is not a bond."""
    return link.get("bond") or {}


def get_vlan(link: LinkSettings) -> VlanLink:
    """Return the link's VLAN settings, {} if it is not a VLAN."""
    return link.get("vlan") or {}


def map_bond_members(links: Iterable[LinkSettings]) -> dict[str, LinkSettings]:
    """Return member interface -> its bond."""
    return {name: link for link in links for name in get_bond(link).get("members", [])}


def list_vlans_on(links: Iterable[LinkSettings], parent: str) -> list[str]:
    """Return the VLANs on *parent*."""
    return [link["interface"] for link in links if get_vlan(link).get("parent") == parent]


def list_vlans(links: Iterable[LinkSettings]) -> list[str]:
    """Return the VLANs of *links*."""
    return [link["interface"] for link in links if get_vlan(link)]


def list_bare_parents(links: Iterable[LinkSettings]) -> list[str]:
    """Return interfaces that only carry Fullmesh's VLANs. Their own addresses are configured by others."""
    every = list(links)
    own = {link["interface"] for link in every}
    found = [get_vlan(link)["parent"] for link in every if get_vlan(link)]
    return [name for name in dict.fromkeys(found) if name not in own]


def sort_links(links: Iterable[LinkSettings]) -> list[LinkSettings]:
    """Return physical interfaces and bonds first, then the VLANs on them."""
    return sorted(links, key=lambda link: bool(get_vlan(link)))


def list_affected_interfaces(links: Iterable[LinkSettings]) -> list[str]:
    """Return every interface whose state changes with *links*: members of bonds, NICs and bonds, VLANs."""
    every = list(links)
    names = [*map_bond_members(every), *(link["interface"] for link in sort_links(every))]
    return list(dict.fromkeys(names))


def list_physical_interfaces(links: Iterable[LinkSettings]) -> list[str]:
    """Return the physical interfaces of *links*. VLANs and bonds have the hardware address of another interface."""
    every = list(links)
    plain = [one["interface"] for one in every if not get_vlan(one) and not get_bond(one)]
    return list(dict.fromkeys([*map_bond_members(every), *plain]))


def read_permanent_macs(read: Reader, names: Iterable[str]) -> set[str]:
    """Return the permanent hardware addresses of *names*. The current address of a bond's member is the bond's."""
    found = set()
    for name in names:
        base = "/sys/class/net/" + name + "/"
        found.add((read(base + "bonding_slave/perm_hwaddr") or read(base + "address")).strip(SPACE))
    return {one.lower() for one in found if one}


# bonding.txt of the kernel: the plan uses the same names
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


def list_bond_options(link: LinkSettings) -> list[tuple[str, str]]:
    """Return the options of a bond in the order that the kernel needs (mode first)."""
    bond: Mapping[str, object] = get_bond(link)
    return [(key, str(bond[key])) for key in BOND_OPTIONS if bond.get(key) not in (None, "")]


class ForeignError(ValueError):
    """A file of others conflicts with Fullmesh's and cannot be edited safely."""


# A setting of a file or profile: section ("" for none), key, value.
Setting = tuple[str, str, str]
# For a setting whose name matches: how it is kept without that file or profile. The first match counts.
KEEP_ELSEWHERE = (
    (
        r"zone$",
        "assign the zone in firewalld (`firewall-cmd --permanent --zone=ZONE --change-interface=NAME`)",
    ),
    (r"mac-?addr|hwaddress", "set the MAC address in a systemd.link(5) file (`MACAddress=`)"),
    (
        r"ethtool|ethernet-|sr-?iov|virtual-function|wake|offload|hardware-|speed|duplex|auto-?neg|dcb|^tc\b",
        "set it in a systemd.link(5) file or in a systemd unit",
    ),
)
OTHERWISE = (
    "remove the setting if this node does not need it. Otherwise configure the interface yourself and set "
    "`static_ip_manage: false` for this node"
)
# Values of these are not shown.
SECRET = re.compile(
    r"802-?1x|key_mgmt|auth|wpa|passw|secret|psk|token|\bpin\b", re.IGNORECASE | re.ASCII
)
SHOWN_CHARACTERS = 80
# A route as `ip route` and `route` accept it, with no more than a route of the plan: no table, source or type.
ROUTE_WORDS = re.compile(
    r"(?:to\s+|-net\s+|-host\s+)?(?:default|[0-9a-f:.]+(?:/\d+)?)"
    r"(?:\s+(?:via|gw|dev|metric|netmask|proto|scope)\s+[\w:.-]+|\s+onlink)*",
    re.ASCII | re.IGNORECASE,
)


def find_lost_settings(
    settings: Iterable[Setting], kept: Mapping[str, str]
) -> list[tuple[str, str]]:
    """Find the settings of a file or profile that are lost when Fullmesh configures the interface.

    Args:
        settings: of the file. A key may end with a number (``address1``, ``route1_options``).
        kept: section -> the keys that a link of the plan covers, separated by spaces. ``key=pattern`` covers only the
            values that match. ``*`` covers the section.

    Returns:
        Pairs of the setting's full name and its value, in a form that may be shown.
    """
    lost = []
    for section, key, value in settings:
        words = split_words(kept.get(section, ""))
        patterns = dict(word.partition("=")[::2] for word in words)
        plain = re.sub(r"\d+(?=$|_options$)", "", key, flags=re.ASCII)
        pattern = patterns.get(key, patterns.get(plain))
        if "*" in words or (
            pattern is not None and (not pattern or re.fullmatch(pattern, value, re.IGNORECASE))
        ):
            continue
        name = section + "." + key if section else key
        shown = " ".join(split_words(value))
        shown = shown if len(shown) <= SHOWN_CHARACTERS else shown[:SHOWN_CHARACTERS] + "..."
        lost.append((name, "..." if SECRET.search(name) else shown))
    return lost


def refuse_lost_settings(path: str, lost: list[tuple[str, str]]) -> None:
    """Refuse to replace a file or profile with settings that a link of the plan does not cover.

    Fullmesh's own configuration does not have these settings, so they would be lost at the next boot or earlier.

    Args:
        path: the file.
        lost: as `find_lost_settings` returns it.

    Raises:
        ForeignError: there is any.
    """
    if not lost:
        return
    fixes = [
        next((fix for pattern, fix in KEEP_ELSEWHERE if re.search(pattern, name.lower())), "")
        for name, _ in lost
    ]
    words = [fix + f", then remove the setting from {path}" for fix in dict.fromkeys(fixes) if fix]
    if not all(fixes):
        words.append(OTHERWISE)
    raise ForeignError(
        "{} contains settings that would be lost when Fullmesh configures this interface: {}. Fix: {}.".format(
            path,
            ", ".join(f"{name}={value}" for name, value in dict.fromkeys(lost)),
            "; ".join(words),
        )
    )


def comment_out(line: str) -> str:
    """Return a foreign line as a comment. This works in every format that Fullmesh edits."""
    if not line.strip(SPACE):
        return line  # its end is blank as well, and the next line must not continue the mark
    indent = line[: len(line) - len(line.lstrip(SPACE))]
    return indent + MARK + line.lstrip(SPACE)


CLOUD_INIT = "/etc/cloud/cloud.cfg.d/99-fullmesh-network.cfg"
# The marks of cloud-init at the head of network files ("Created by cloud-init on instance boot automatically",
# "generated from information provided by the datasource").
CLOUD_INIT_WORDS = ("cloud-init", "provided by the datasource")


def is_from_cloud_init(path: str, text: str) -> bool:
    """Return whether cloud-init wrote a file."""
    return "cloud-init" in path or any(word in text[:600] for word in CLOUD_INIT_WORDS)


def disable_cloud_init(read: Reader, changes: Changes) -> Changes:
    """Return a drop-in that stops cloud-init from rewriting its network files, if one of them changes.

    cloud-init's own files recommend this drop-in (network: {config: disabled}).
    """
    for path in changes:
        if is_from_cloud_init(path, read(path)):
            return {CLOUD_INIT: HEAD + "network: {config: disabled}\n"}
    return {}
