# Copyright (c) the Fullmesh contributors
# SPDX-License-Identifier: MIT
"""Links as .network and .netdev files of systemd-networkd (systemd.network(5)). Stdlib only."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING

from . import common, kernel_state

if TYPE_CHECKING:
    from ...commands import SplitRunner
    from ..types import Changes, Files, Link, State
    from .common import Commands, Lister, Reader

    Pairs = list[tuple[str, str]]
    Section = tuple[str, Pairs]

NAME = "networkd"
DIRECTORY = "/etc/systemd/network"
# The first file that matches an interface, in the order of names over all directories, is the only one that counts:
# before netplan's 10-netplan-*, cloud-init's 10-cloud-init-* and whatever an administrator numbers.
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


def files(links: list[Link]) -> Files:
    """Our files, whole."""
    result: Files = {}
    for link in links:
        result[PREFIX + link["interface"] + ".network"] = network(link, links)
        if common.vlan_of(link) or common.bond_of(link):
            result[PREFIX + link["interface"] + ".netdev"] = netdev(link)
    for name, bond in common.members(links).items():
        pairs = [("Bond", bond["interface"])]
        if common.bond_of(bond).get("primary") == name:
            pairs.append(("PrimarySlave", "yes"))
        # no link-local address on a member: it has no life of its own
        pairs.append(("LinkLocalAddressing", "no"))
        match = ("Match", [("Name", name)])
        idle = ("Link", [("RequiredForOnline", "no")])
        result[PREFIX + name + ".network"] = printed([match, idle, ("Network", pairs)])
    return result


def mode(path: str) -> int:
    """systemd-networkd has a user of its own, which has to read them."""
    return 0o644


def printed(sections: list[Section]) -> str:
    """Print the sections that have something in them."""
    text = ["\n".join(["[" + n + "]"] + [k + "=" + v for k, v in p]) for n, p in sections if p]
    return common.HEAD + "\n\n".join(text) + "\n"


def network(link: Link, links: list[Link]) -> str:
    """The .network file of one interface."""
    sections: list[Section] = [("Match", matched(link)), ("Link", [])]
    if link.get("mtu"):
        sections[1][1].append(("MTUBytes", str(link["mtu"])))
    # a boot must not wait two minutes for a cluster cable that is out
    sections[1][1].append(("RequiredForOnline", "no"))
    pairs = [("DHCP", "no"), ("LinkLocalAddressing", "ipv6"), ("IPv6AcceptRA", "no")]
    pairs += [("VLAN", name) for name in common.stacked(links, link["interface"])]
    pairs += [("Address", value) for value in link["addresses"]]
    pairs += [("Gateway", link["gateway"])] if link.get("gateway") else []
    pairs += [("DNS", value) for value in link.get("dns", [])]
    if link.get("search"):
        pairs.append(("Domains", " ".join(link["search"])))
    sections.append(("Network", pairs))
    for route in link.get("routes", []):
        sections.append(("Route", [("Destination", route["to"]), ("Gateway", route["via"])]))
    return printed(sections)


def matched(link: Link) -> Pairs:
    """Type: a VLAN has its parent's hardware address, and must not be taken for it."""
    if link.get("mac"):
        return [("MACAddress", str(link["mac"])), ("Type", "ether")]
    return [("Name", link["interface"])]


def netdev(link: Link) -> str:
    """The .netdev file of a bond or VLAN."""
    vlan = common.vlan_of(link)
    head = [("Name", link["interface"]), ("Kind", "vlan" if vlan else "bond")]
    if vlan:
        return printed([("NetDev", head), ("VLAN", [("Id", str(vlan["id"]))])])
    pairs = [
        (BOND_KEYS[key], value + "ms" if key in SECONDS else value)
        for key, value in common.bond_options(link)
        if key in BOND_KEYS
    ]
    return printed([("NetDev", head), ("Bond", pairs)])


# --- files of others --------------------------------------------------------------------------


def file_of(read: Reader, interface: str) -> str:
    """The .network file that systemd-networkd uses for an interface, empty for none."""
    index = read("/sys/class/net/" + interface + "/ifindex").strip()
    for line in read("/run/systemd/netif/links/" + index).splitlines() if index else []:
        if line.startswith("NETWORK_FILE="):
            return line.split("=", 1)[1]
    return ""


def foreign(read: Reader, listed: Lister, links: list[Link]) -> Changes:
    """Ours come first, so nothing has to change, but: a bare parent has to be told of its VLANs.

    Its own file stays; a drop-in beside it adds to it. A parent that nobody configures gets a file of ours.
    """
    changes: Changes = {}
    for name in common.bare_parents(links):
        vlans = [("VLAN", vlan) for vlan in common.stacked(links, name)]
        own = PREFIX + name + ".network"
        there = file_of(read, name)
        if there and there != own:
            path = DIRECTORY + "/" + os.path.basename(there) + ".d/" + DROPIN
            text = printed([("Network", vlans)])
        else:
            path = own
            idle: Pairs = [("RequiredForOnline", "no")]
            # what somebody gave it by hand stays: networkd would take it off as it takes the card over
            pairs = [("KeepConfiguration", "yes"), *vlans]
            text = printed([("Match", [("Name", name)]), ("Link", idle), ("Network", pairs)])
        # told every time: what is ours and not told is no longer wanted
        changes[path] = text
    overruled = overruled_files(read, listed, links)
    changes.update(common.cloud_init(read, dict.fromkeys(overruled)))
    return changes


def overruled_files(read: Reader, listed: Lister, links: list[Link]) -> list[str]:
    """cloud-init's files for our interfaces: ours win, but it must not write new ones at every boot."""
    names = common.touched(links)
    pattern = re.compile(r"^Name\s*=\s*(.*)$", re.MULTILINE)
    found = []
    for path in listed(DIRECTORY + "/10-cloud-init-*.network"):
        words = " ".join(pattern.findall(read(path))).split()
        if set(words) & set(names) and not read(common.CLOUD_INIT):
            found.append(path)
    return found


# --- apply and restore ------------------------------------------------------------------------


def validate(run: SplitRunner, scratch: Files) -> str:
    """systemd-networkd has no dry run."""
    return ""


def snapshot(run: SplitRunner, names: list[str]) -> State:
    """The kernel's state, and the version of systemd."""
    state = kernel_state.of(run, names)
    # "systemd 252 (252.39-1~deb12u2)"
    found = re.match(r"systemd (\d+)", run(["networkctl", "--version"])[1])
    state["systemd"] = int(found.group(1)) if found else 0
    return state


def apply(
    links: list[Link], before: State, wait: int = 30, names: list[str] | None = None
) -> Commands:
    """Reload, which makes new devices and reconfigures what has another file now, then our interfaces by name."""
    steps = kernel_state.remade(links, before)
    if before.get("systemd", RELOADS) < RELOADS:
        return [*steps, ["systemctl", "restart", "systemd-networkd.service"]]
    steps.append(["networkctl", "reload"])
    return steps + kernel_state.reconfigured(links, before, steps, names)


def restore(names: list[str], before: State) -> Commands:
    """Let networkd read what stands there now, then what only the kernel knew."""
    steps = kernel_state.gone(names, before)
    if before.get("systemd", RELOADS) < RELOADS:
        steps.append(["systemctl", "restart", "systemd-networkd.service"])
    else:
        steps += kernel_state.reloaded(names, before)
    return steps + kernel_state.runtime(names, before) + kernel_state.leased(names, before)
