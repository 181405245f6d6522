# Copyright (c) the Fullmesh contributors
# SPDX-License-Identifier: MIT
"""Render links as .network and .netdev files of systemd-networkd (systemd.network(5)). Standard library only."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING

from ...files import SPACE, split_lines, split_words
from . import common, kernel_state

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ...commands import SplitRunner
    from ..types import Changes, Files, LinkSettings, OwnerState
    from .common import Commands, Lister, Reader

    Pairs = list[tuple[str, str]]
    Section = tuple[str, Pairs]

NAME = "networkd"
DIRECTORY = "/etc/systemd/network"
# Only the first matching file counts, by name over all directories. This prefix sorts before netplan's 10-netplan-*,
# cloud-init's 10-cloud-init-* and numbers that administrators use.
PREFIX = DIRECTORY + "/00-fullmesh-"
DROPIN = "fullmesh.conf"
OURS = [PREFIX + "*.network", PREFIX + "*.netdev", DIRECTORY + "/*.network.d/" + DROPIN]
READS: list[str] = []
# networkctl reload and reconfigure: systemd 244
RELOADS = 244
# systemd.netdev(5), section Bond, for the kernel's option
BOND_KEYS = {
    "mode": "Mode",
    "miimon": "MIIMonitorSec",
    "updelay": "UpDelaySec",
    "downdelay": "DownDelaySec",
    "lacp_rate": "LACPTransmitRate",
    "xmit_hash_policy": "TransmitHashPolicy",
    "ad_select": "AdSelect",
}
SECONDS = ("miimon", "updelay", "downdelay")
# The folders of systemd-networkd's files and drop-ins.
PLACES = tuple(
    one + "/systemd/network" for one in ("/etc", "/run", "/usr/local/lib", "/usr/lib", "/lib")
)
LEASE = (
    "RouteMetric UseDNS UseDomains UseRoutes UseGateway UseNTP UseSIP UseMTU UseHostname UseTimezone "
    "ClientIdentifier DUIDType DUIDRawData IAID SendHostname=yes|true|1|on RapidCommit UseAddress "
    "UseDelegatedPrefix WithoutRA"
)
# The parts of a .network file that a link of the plan covers (systemd.network(5)): addressing, identity, and options of
# leases that the node no longer requests. In the format of `common.find_lost_settings`.
COVERED = {
    "Match": "*",
    "Link": "MTUBytes RequiredForOnline RequiredFamilyForOnline ActivationPolicy=up Unmanaged=no|false|0|off",
    "Network": """
        Description DHCP Address Gateway DNS Domains LinkLocalAddressing IPv6AcceptRA
        IPv6LinkLocalAddressGenerationMode IPv6PrivacyExtensions DHCPServer=no|false|0|off
    """,
    "Address": "Address Broadcast",
    "Route": "Destination Gateway Metric GatewayOnLink Scope Protocol=static Type=unicast Table=main|254",
    "DHCP": LEASE,
    "DHCPv4": LEASE,
    "DHCPv6": LEASE,
    "IPv6AcceptRA": LEASE
    + " UseRoutePrefix UseAutonomousPrefix UseOnLinkPrefix UseICMP6RateLimit DHCPv6Client",
    # of a .netdev file, which has a section NetDev as well
    "NetDev": "Name Kind=vlan|bond Description MTUBytes",
    "VLAN": "Id ReorderHeader=yes|true|1|on",
    "Bond": " ".join([*BOND_KEYS.values(), "PrimarySlave"]),
}


def build_files(links: list[LinkSettings]) -> Files:
    """Return Fullmesh's complete files."""
    result: Files = {}
    for link in links:
        result[PREFIX + link["interface"] + ".network"] = render_network_file(link, links)
        if common.get_vlan(link) or common.get_bond(link):
            result[PREFIX + link["interface"] + ".netdev"] = render_netdev_file(link)
    for name, bond in common.map_bond_members(links).items():
        pairs = [("Bond", bond["interface"])]
        if common.get_bond(bond).get("primary") == name:
            pairs.append(("PrimarySlave", "yes"))
        # no link-local address on a member: it has no life of its own
        pairs.append(("LinkLocalAddressing", "no"))
        match = ("Match", [("Name", name)])
        idle = ("Link", [("RequiredForOnline", "no")])
        result[PREFIX + name + ".network"] = render_unit_file([match, idle, ("Network", pairs)])
    return result


def get_file_mode(path: str) -> int:
    """Return the mode. systemd-networkd runs as its own user, which has to read the files."""
    return 0o644


def render_unit_file(sections: list[Section]) -> str:
    """Render the sections that are not empty."""
    text = ["\n".join(["[" + n + "]"] + [k + "=" + v for k, v in p]) for n, p in sections if p]
    return common.HEAD + "\n\n".join(text) + "\n"


def render_network_file(link: LinkSettings, links: list[LinkSettings]) -> str:
    """Render the .network file of one interface."""
    sections: list[Section] = [("Match", build_match_section(link)), ("Link", [])]
    if link.get("mtu"):
        sections[1][1].append(("MTUBytes", str(link["mtu"])))
    # a boot must not wait two minutes for a cluster cable that is out
    sections[1][1].append(("RequiredForOnline", "no"))
    pairs = [("DHCP", "no"), ("LinkLocalAddressing", "ipv6"), ("IPv6AcceptRA", "no")]
    pairs += [("VLAN", name) for name in common.list_vlans_on(links, link["interface"])]
    pairs += [("Address", value) for value in link["addresses"]]
    pairs += [("Gateway", link["gateway"])] if link.get("gateway") else []
    pairs += [("DNS", value) for value in link.get("dns", [])]
    if link.get("search"):
        pairs.append(("Domains", " ".join(link["search"])))
    sections.append(("Network", pairs))
    for route in link.get("routes", []):
        sections.append(("Route", [("Destination", route["to"]), ("Gateway", route["via"])]))
    rail = common.get_rail_table(link)
    if rail:
        number = ("Table", str(rail.number))
        way = [("Destination", rail.network), ("Scope", "link"), ("PreferredSource", rail.source)]
        rule = [("From", rail.source), number, ("Priority", str(rail.number))]
        sections += [("Route", [*way, number]), ("RoutingPolicyRule", rule)]
    return render_unit_file(sections)


def build_match_section(link: LinkSettings) -> Pairs:
    """Return the section that matches the interface.

    Type excludes VLANs, which share their parent's hardware address.
    """
    if link.get("mac"):
        return [("MACAddress", str(link["mac"])), ("Type", "ether")]
    return [("Name", link["interface"])]


def render_netdev_file(link: LinkSettings) -> str:
    """Render the .netdev file of a bond or VLAN."""
    vlan = common.get_vlan(link)
    head = [("Name", link["interface"]), ("Kind", "vlan" if vlan else "bond")]
    if vlan:
        return render_unit_file([("NetDev", head), ("VLAN", [("Id", str(vlan["id"]))])])
    pairs = [
        (BOND_KEYS[key], value + "ms" if key in SECONDS else value)
        for key, value in common.list_bond_options(link)
        if key in BOND_KEYS
    ]
    return render_unit_file([("NetDev", head), ("Bond", pairs)])


# --- files of others --------------------------------------------------------------------------


def find_network_file(read: Reader, interface: str) -> str:
    """Return the .network file that systemd-networkd uses for an interface, or ""."""
    index = read("/sys/class/net/" + interface + "/ifindex").strip(SPACE)
    for line in split_lines(read("/run/systemd/netif/links/" + index)) if index else []:
        if line.startswith("NETWORK_FILE="):
            return line.split("=", 1)[1]
    return ""


def find_foreign_changes(read: Reader, listed: Lister, links: list[LinkSettings]) -> Changes:
    """Add VLANs to their bare parents.

    Nothing else changes, because Fullmesh's files come first.

    The parent's own file gets a drop-in. A parent without a file gets one from Fullmesh.
    """
    changes: Changes = {}
    for name in common.list_bare_parents(links):
        vlans = [("VLAN", vlan) for vlan in common.list_vlans_on(links, name)]
        own = PREFIX + name + ".network"
        there = find_network_file(read, name)
        if there and there != own:
            path = DIRECTORY + "/" + os.path.basename(there) + ".d/" + DROPIN
            text = render_unit_file([("Network", vlans)])
        else:
            path = own
            idle: Pairs = [("RequiredForOnline", "no")]
            # addresses that were set by hand stay: networkd would remove them when it takes the interface over
            pairs = [("KeepConfiguration", "yes"), *vlans]
            text = render_unit_file(
                [("Match", [("Name", name)]), ("Link", idle), ("Network", pairs)]
            )
        # always returned: files of Fullmesh that are missing here are removed
        changes[path] = text
    refuse_overruled_settings(read, listed, links)
    overruled = list_overruled_files(read, listed, links)
    changes.update(common.disable_cloud_init(read, dict.fromkeys(overruled)))
    return changes


def refuse_overruled_settings(read: Reader, listed: Lister, links: list[LinkSettings]) -> None:
    """Refuse to override files with settings that Fullmesh's files lack.

    Only active files are read: settings that Fullmesh's file has already overridden are not lost by this change.

    Raises:
        ForeignError: there is such a file.
    """
    names = common.list_affected_interfaces(links)
    ours = {"Bond": names, "VLAN": common.list_vlans(links)}
    paths = [
        path
        for name in names
        if (path := find_network_file(read, name)) and not path.startswith(PREFIX)
    ]
    for path in dict.fromkeys(paths):
        dropins = [f"{place}/{os.path.basename(path)}.d/*.conf" for place in PLACES]
        every = [path, *(one for pattern in dropins for one in listed(pattern))]
        for one in dict.fromkeys(every):
            common.refuse_lost_settings(one, find_lost_networkd_settings(read(one), ours))
    made = [name for name in names if not read(PREFIX + name + ".netdev")]
    for path in (one for place in PLACES for one in listed(place + "/*.netdev")):
        text = read(path)
        if ("NetDev", "Name") in {
            (at, key) for at, key, value in parse_unit_settings(text) if value in made
        }:
            common.refuse_lost_settings(path, find_lost_networkd_settings(text, ours))


def find_lost_networkd_settings(text: str, ours: Mapping[str, list[str]]) -> list[tuple[str, str]]:
    """Return the settings of a file that a link of the plan does not cover.

    Args:
        text: the file. One with Fullmesh's head has no settings of others.
        ours: key of the section Network -> the devices that Fullmesh's files have there as well.
    """
    if text.startswith(common.HEAD):
        return []
    settings = [
        (section, key, value)
        for section, key, value in parse_unit_settings(text)
        if value and not (section == "Network" and value in ours.get(key, []))
    ]
    return common.find_lost_settings(settings, COVERED)


def parse_unit_settings(text: str) -> list[common.Setting]:
    """Parse a file of systemd's syntax (systemd.syntax(7)): section, key and value of each line, in order."""
    found: list[common.Setting] = []
    section = tied = ""
    for line in split_lines(text):
        word = line.strip(SPACE)
        if word[:1] in ("#", ";"):
            continue  # also between lines that a backslash ties together
        word, tied = tied + word, ""
        if word.endswith("\\"):
            tied = word[:-1] + " "
        elif word.startswith("[") and word.endswith("]"):
            section = word[1:-1]
        elif "=" in word:
            key, _, value = word.partition("=")
            found.append((section, key.strip(SPACE), value.strip(SPACE)))
    return found


def list_overruled_files(read: Reader, listed: Lister, links: list[LinkSettings]) -> list[str]:
    """Return cloud-init's files for Fullmesh's interfaces.

    They are overridden, but must not be renewed at every boot.
    """
    names = common.list_affected_interfaces(links)
    pattern = re.compile(r"^Name\s*=\s*(.*)$", re.MULTILINE | re.ASCII)
    found = []
    for path in listed(DIRECTORY + "/10-cloud-init-*.network"):
        words = split_words(" ".join(pattern.findall(read(path))))
        if set(words) & set(names) and not read(common.CLOUD_INIT):
            found.append(path)
    return found


# --- apply and restore ------------------------------------------------------------------------


def check_files(run: SplitRunner, scratch: Files) -> str:
    """Return no error, since systemd-networkd has no dry run."""
    return ""


def read_snapshot(run: SplitRunner, names: list[str]) -> OwnerState:
    """Return the kernel's state, and the version of systemd."""
    state = kernel_state.read_kernel_state(run, names)
    # "systemd 252 (252.39-1~deb12u2)"
    found = re.match(r"systemd (\d+)", run(["networkctl", "--version"])[1], re.ASCII)
    state["systemd"] = int(found.group(1)) if found else 0
    return state


def build_activation_commands(
    links: list[LinkSettings], before: OwnerState, wait: int = 30, names: list[str] | None = None
) -> Commands:
    """Reload, which creates new devices and applies changed files, then reconfigure Fullmesh's interfaces by name."""
    steps = kernel_state.build_remake_commands(links, before)
    if before.get("systemd", RELOADS) < RELOADS:
        return [*steps, ["systemctl", "restart", "systemd-networkd.service"]]
    steps.append(["networkctl", "reload"])
    return steps + kernel_state.build_reconfigure_commands(links, before, steps, names)


def build_reactivation_commands(names: list[str], before: OwnerState) -> Commands:
    """Let networkd read the present files, then restore state that only the kernel had."""
    steps = kernel_state.build_removal_commands(names, before)
    if before.get("systemd", RELOADS) < RELOADS:
        steps.append(["systemctl", "restart", "systemd-networkd.service"])
    else:
        steps += kernel_state.build_reload_commands(names, before)
    return (
        steps
        + kernel_state.build_runtime_commands(names, before)
        + kernel_state.build_lease_commands(names, before)
    )
