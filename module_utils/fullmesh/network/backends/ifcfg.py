# Copyright (c) the Fullmesh contributors
# SPDX-License-Identifier: MIT
"""Read and disable foreign ifcfg files, which EL9's NetworkManager still uses.

Fullmesh never creates them.

EL9's installer writes keyfiles, but its cloud-init wrote ifcfg files. EL10 has no plugin for them. The keys are those
of nm-settings-ifcfg-rh(5). Standard library only.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...files import SPACE, split_lines, split_whole_lines
from . import common

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ..types import Changes
    from .common import Lister, Reader

SCRIPTS = "/etc/sysconfig/network-scripts"

# The parts of such a file that a link of the plan covers: addressing, identity, and lease options. Includes keys that
# old installers and images wrote for network-scripts. In the format of `common.find_lost_settings`.
COVERED = {
    "": r"""
        TYPE=ethernet|bond|vlan DEVICE NAME UUID HWADDR HWADDR_BLACKLIST ONBOOT STARTMODE USERCTL NM_CONTROLLED
        AUTOCONNECT_PRIORITY AUTOCONNECT_RETRIES MULTI_CONNECT DEVTIMEOUT LINKDELAY HOTPLUG
        BOOTPROTO=none|static|dhcp|bootp|ibft IPADDR PREFIX NETMASK NETWORK BROADCAST GATEWAY DNS DOMAIN SEARCH
        GATEWAYDEV DEFROUTE METRIC PEERDNS PEERROUTES PEERNTP NOZEROCONF ARPCHECK ARPING_WAIT ACD_TIMEOUT
        IPV4_FAILURE_FATAL IPV4_ROUTE_METRIC IPV4_DHCP_TIMEOUT IPV4_REQUIRED_TIMEOUT
        DHCP_CLIENT_ID DHCP_DUID DHCP_IAID DHCP_SEND_HOSTNAME=yes PERSISTENT_DHCLIENT DHCPRELEASE
        DHCLIENT_SET_DEFAULT_ROUTE
        IPV6INIT IPV6_DISABLED IPV6_AUTOCONF IPV6ADDR IPV6ADDR_SECONDARIES IPV6_DEFAULTGW IPV6_DEFAULTDEV
        IPV6_DEFROUTE IPV6_PEERDNS IPV6_PEERROUTES IPV6_FAILURE_FATAL IPV6_ADDR_GEN_MODE IPV6_PRIVACY
        IPV6_ROUTE_METRIC IPV6_DHCP_TIMEOUT IPV6_RA_TIMEOUT IPV6_DOMAIN IPV6_ROUTER=no IPV6_FORCE_ACCEPT_RA=no
        DHCPV6C DHCPV6C_OPTIONS DHCPV6_DUID DHCPV6_IAID MTU
        PROXY_METHOD=none BROWSER_ONLY=no MACADDR=preserve|permanent
        BONDING_MASTER BONDING_OPTS=(\s*("""
    + "|".join(common.BOND_OPTIONS)
    + r""")=\S+)*
        SLAVE VLAN VLAN_ID PHYSDEV REORDER_HDR=yes GVRP=no
    """,
    # of route-NAME and route6-NAME
    "route": "ADDRESS NETMASK GATEWAY METRIC",
}


def parse_ifcfg(text: str) -> dict[str, str]:
    """Parse the needed parts of an ifcfg file."""
    result = {}
    for line in split_lines(text):
        key, found, value = line.strip(SPACE).partition("=")
        if found and not key.startswith("#"):
            result[key] = value.strip(SPACE).strip("\"'")
    return result


def is_ifcfg_of(text: str, names: list[str], macs: set[str]) -> bool:
    """Return whether a file describes one of *names*, by name or by hardware address."""
    values = parse_ifcfg(text)
    if values.get("DEVICE"):
        return values["DEVICE"] in names
    return values.get("HWADDR", "").lower() in macs


def is_ignored_ifcfg(path: str) -> bool:
    """Return whether the plugin treats a file as a backup and ignores it."""
    return path.endswith(("~", ".bak", ".orig", ".rpmnew", ".rpmorig", ".rpmsave"))


def disable_ifcfg_files(read: Reader, listed: Lister, names: list[str], macs: set[str]) -> Changes:
    """Disable foreign files of Fullmesh's interfaces, so that they no longer start."""
    changes: Changes = {}
    ours = {*names, *list_ifcfg_uuids((read(path) for path in listed(SCRIPTS + "/ifcfg-*")), names)}
    for path in listed(SCRIPTS + "/ifcfg-*"):
        text = read(path)
        if (
            is_ignored_ifcfg(path)
            or text.startswith(common.HEAD)
            or not is_ifcfg_of(text, names, macs)
        ):
            continue
        if parse_ifcfg(text).get("ONBOOT", "yes").lower() not in ("no", "false", "0"):
            common.refuse_lost_settings(path, find_lost_ifcfg_settings(text, ours))
            for kind, one in list_route_files(path):
                common.refuse_lost_settings(one, find_lost_ifcfg_routes(kind, read(one)))
            changes[path] = disable_ifcfg(text)
    return changes


def list_ifcfg_uuids(texts: Iterable[str], names: list[str]) -> list[str]:
    """Return the uuids of the files that are for *names*."""
    every = [parse_ifcfg(text) for text in texts]
    return [one.get("UUID", "") for one in every if one.get("DEVICE") in names]


def list_route_files(path: str) -> list[tuple[str, str]]:
    """Return the files of routes and rules that belong to an ifcfg file: (route or rule, path)."""
    name = path[len(SCRIPTS + "/ifcfg-") :]
    kinds = (("route", "route-"), ("route", "route6-"), ("rule", "rule-"), ("rule", "rule6-"))
    return [(kind, f"{SCRIPTS}/{start}{name}") for kind, start in kinds]


def find_lost_ifcfg_settings(text: str, ours: Iterable[str] = ()) -> list[tuple[str, str]]:
    """Return the settings of a file that a link of the plan does not cover.

    Args:
        text: the file.
        ours: names and uuids of Fullmesh's interfaces. A member of one of them stays a member.
    """
    settings = [
        ("", key, value)
        for key, value in parse_ifcfg(text).items()
        if value and not (key in ("MASTER", "MASTER_UUID") and value in ours)
    ]
    return common.find_lost_settings(settings, COVERED)


def find_lost_ifcfg_routes(kind: str, text: str) -> list[tuple[str, str]]:
    """Return the settings of a routes or rules file that a link does not cover: every rule, and some routes."""
    settings = []
    for line in (one.strip(SPACE) for one in split_lines(text)):
        key, found, value = line.partition("=")
        plain = kind == "route" and common.ROUTE_WORDS.fullmatch(line)
        if line and not line.startswith("#") and not plain:
            settings.append((kind, key, value) if found else ("", kind, line))
    return common.find_lost_settings(settings, COVERED)


def disable_ifcfg(text: str) -> str:
    """Return the file with ONBOOT=no and every other byte unchanged."""
    lines = split_whole_lines(text)
    if lines and not lines[-1].endswith("\n"):
        lines[-1] += "\n"
    for number, line in enumerate(lines):
        if line.strip(SPACE).startswith("ONBOOT="):
            lines[number] = common.comment_out(line)
    return "".join(lines) + "ONBOOT=no\n"
