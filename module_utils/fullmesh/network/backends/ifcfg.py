# Copyright (c) the Fullmesh contributors
# SPDX-License-Identifier: MIT
"""Links as ifcfg files of EL7 and EL8, for network-scripts and for NetworkManager's ifcfg-rh plugin alike.

Keys: /usr/share/doc/initscripts/sysconfig.txt, nm-settings-ifcfg-rh(5). Stdlib only.
"""

from __future__ import annotations

import re
import uuid
from typing import TYPE_CHECKING

from .. import nmcli
from . import common

if TYPE_CHECKING:
    from .common import Changes, Commands, Files, Link, Lister, Reader, Runner, State

    Pairs = list[tuple[str, str]]

NAME = "ifcfg"
SCRIPTS = "/etc/sysconfig/network-scripts"
OURS = [SCRIPTS + "/ifcfg-*", SCRIPTS + "/route-*", SCRIPTS + "/route6-*"]
READS: list[str] = []
# The name space of our NetworkManager profiles with another name, so that the two never meet.
NAMESPACE = uuid.UUID("6f0c7b52-6a3e-5d0e-9f3b-2f4f6b1d7a90")
# sh reads these files: a value with anything else stands in quotes.
PLAIN = re.compile(r"[A-Za-z0-9_.:/,-]*\Z")


def path_of(interface: str) -> str:
    """`ifup NAME` reads the file of that name first, whoever wrote it; so it has to be ours."""
    return SCRIPTS + "/ifcfg-" + interface


def profile_uuid(interface: str) -> str:
    """The uuid of our profile for *interface*, where NetworkManager reads the file."""
    return str(uuid.uuid5(NAMESPACE, "ifcfg-" + interface))


def files(links: list[Link]) -> Files:
    """Our files, whole. ``link["unmanaged"]``: NetworkManager shall keep off, as it did before."""
    result: Files = {}
    for link in links:
        result[path_of(link["interface"])] = printed(link_pairs(link))
        for family, prefix in ((4, "route-"), (6, "route6-")):
            lines = route_lines(link, family)
            if lines:
                result[SCRIPTS + "/" + prefix + link["interface"]] = common.HEAD + lines
    for name, bond in common.members(links).items():
        pairs = [("TYPE", "Ethernet"), *head_pairs(name, bond), ("BOOTPROTO", "none")]
        result[path_of(name)] = printed([*pairs, ("MASTER", bond["interface"]), ("SLAVE", "yes")])
    return result


def mode(path: str) -> int:
    """No secret in them; the installer's are 0644 too."""
    return 0o644


def printed(pairs: Pairs) -> str:
    """Print pairs as sh assignments."""
    lines = [
        key + "=" + (value if PLAIN.match(value) else '"' + value + '"') for key, value in pairs
    ]
    return common.HEAD + "\n".join(lines) + "\n"


def head_pairs(name: str, link: Link) -> Pairs:
    """What every file of ours says of itself."""
    pairs = [("DEVICE", name), ("NAME", common.NAME + name), ("UUID", profile_uuid(name))]
    pairs.append(("ONBOOT", "yes"))
    return pairs + ([("NM_CONTROLLED", "no")] if link.get("unmanaged") else [])


def link_pairs(link: Link) -> Pairs:
    """One interface."""
    pairs = [*kind_pairs(link), *head_pairs(link["interface"], link), ("BOOTPROTO", "none")]
    if link.get("mac"):
        pairs.append(("HWADDR", str(link["mac"]).upper()))
    if link.get("mtu"):
        pairs.append(("MTU", str(link["mtu"])))
    pairs += [*pairs4(link), *pairs6(link), ("PEERDNS", "no")]
    pairs += [(f"DNS{n}", value) for n, value in enumerate(link.get("dns", []), 1)]
    if link.get("search"):
        pairs.append(("DOMAIN", " ".join(link["search"])))
    return pairs


def kind_pairs(link: Link) -> Pairs:
    """What makes it a bond or a VLAN. VID is network-scripts' word, VLAN_ID NetworkManager's."""
    vlan = common.vlan_of(link)
    if vlan:
        number = str(vlan["id"])
        pairs = [("TYPE", "Vlan"), ("VLAN", "yes"), ("PHYSDEV", str(vlan["parent"]))]
        return [*pairs, ("VLAN_ID", number), ("VID", number)]
    if common.bond_of(link):
        options = " ".join(key + "=" + value for key, value in common.bond_options(link))
        return [("TYPE", "Bond"), ("BONDING_MASTER", "yes"), ("BONDING_OPTS", options)]
    return [("TYPE", "Ethernet")]


def pairs4(link: Link) -> Pairs:
    """IPv4; the first address has no number, so that the oldest scripts read it."""
    pairs: Pairs = []
    for number, value in enumerate(common.of_family(link["addresses"], 4)):
        address, _, prefix = value.partition("/")
        end = str(number) if number else ""
        pairs += [("IPADDR" + end, address), ("PREFIX" + end, prefix)]
    gateway = common.gateway_of(link, 4)
    pairs += [("GATEWAY", gateway)] if gateway else []
    return [*pairs, ("DEFROUTE", "yes" if gateway else "no")]


def pairs6(link: Link) -> Pairs:
    """IPv6: on, but without what routers announce."""
    addresses = common.of_family(link["addresses"], 6)
    pairs = [("IPV6INIT", "yes"), ("IPV6_AUTOCONF", "no")]
    if addresses:
        pairs.append(("IPV6ADDR", addresses[0]))
    if addresses[1:]:
        pairs.append(("IPV6ADDR_SECONDARIES", " ".join(addresses[1:])))
    gateway = common.gateway_of(link, 6)
    pairs += [("IPV6_DEFAULTGW", gateway)] if gateway else []
    return [*pairs, ("IPV6_DEFROUTE", "yes" if gateway else "no")]


def route_lines(link: Link, family: int) -> str:
    """The routes as arguments of `ip route add`, which both readers take."""
    routes = common.narrow_routes(link, family)
    text = "%s via %s dev %s\n"
    return "".join(text % (one["to"], one["via"], link["interface"]) for one in routes)


# --- files of others --------------------------------------------------------------------------


def values_of(text: str) -> dict[str, str]:
    """Read an ifcfg file as far as is needed."""
    result = {}
    for line in text.splitlines():
        key, found, value = line.strip().partition("=")
        if found and not key.startswith("#"):
            result[key] = value.strip().strip("\"'")
    return result


def means(text: str, names: list[str], macs: set[str]) -> bool:
    """Say whether a file describes one of *names*, by name or by hardware address."""
    values = values_of(text)
    if values.get("DEVICE"):
        return values["DEVICE"] in names
    return values.get("HWADDR", "").lower() in macs


def file_of(read: Reader, listed: Lister, interface: str) -> str:
    """The ifcfg file that describes *interface*, empty for none; backups that `ifup` ignores do not count."""
    macs = common.hardware(read, [interface])
    paths = [path for path in listed(SCRIPTS + "/ifcfg-*") if not ignored(path)]
    # the one of its name first, as need_config of network-functions does
    paths.sort(key=lambda path: (path != path_of(interface), path))
    found = [path for path in paths if means(read(path), [interface], macs)]
    return found[0] if found else ""


def ignored(path: str) -> bool:
    """What network-functions and the ifcfg-rh plugin take for a backup."""
    return path.endswith(("~", ".bak", ".orig", ".rpmnew", ".rpmorig", ".rpmsave"))


def quieted_files(read: Reader, listed: Lister, names: list[str], macs: set[str]) -> Changes:
    """Files of others that mean our interfaces stay, but are no longer brought up."""
    changes: Changes = {}
    for path in listed(SCRIPTS + "/ifcfg-*"):
        text = read(path)
        if ignored(path) or text.startswith(common.HEAD) or not means(text, names, macs):
            continue
        if values_of(text).get("ONBOOT", "yes").lower() not in ("no", "false", "0"):
            changes[path] = quieted(text)
    return changes


def quieted(text: str) -> str:
    """The file with ONBOOT=no and every other byte as it was."""
    lines = text.splitlines(True)
    if lines and not lines[-1].endswith("\n"):
        lines[-1] += "\n"
    for number, line in enumerate(lines):
        if line.strip().startswith("ONBOOT="):
            lines[number] = common.commented(line)
    return "".join(lines) + "ONBOOT=no\n"


def foreign(read: Reader, listed: Lister, links: list[Link]) -> Changes:
    """Other files for our interfaces go quiet; routes of theirs that `ifup` would add to ours go away."""
    names = common.touched(links)
    own = files(links)
    changes = quieted_files(read, listed, names, common.hardware(read, common.cards(links)))
    # what stands under our own names is replaced whole
    changes = {path: text for path, text in changes.items() if path not in own}
    for name in names:
        for prefix in ("route-", "route6-"):
            path = SCRIPTS + "/" + prefix + name
            if path not in own and read(path):
                changes[path] = None
    replaced: Changes = {path: None for path in own if read(path) and not is_ours(read(path))}
    changes.update(common.cloud_init(read, dict(replaced, **changes)))
    return changes


def is_ours(text: str) -> bool:
    """Say whether we wrote a file."""
    return text.startswith(common.HEAD)


# --- apply and restore ------------------------------------------------------------------------


def validate(run: Runner, scratch: Files) -> str:
    """Neither reader has a dry run."""
    return ""


def snapshot(run: Runner, names: list[str]) -> State:
    """The kernel's state, and what NetworkManager has active where it manages the device."""
    state = common.kernel_state(run, names)
    active = nmcli.profiles(run, names)
    state["nm"], state["profiles"] = active is not None, active or {}
    return state


def apply(
    links: list[Link], before: State, wait: int = 30, names: list[str] | None = None
) -> Commands:
    """Through NetworkManager where it reads these files and manages the device, else through ifdown and ifup."""
    steps = common.remade([one for one in links if common.named(one, names)], before)
    through_nm = before.get("nm") and not any(link.get("unmanaged") for link in links)
    every = common.touched(links)
    if through_nm:
        steps.append(["nmcli", "connection", "reload"])
        steps.append(["nmcli", "connection", "load"] + [path_of(name) for name in sorted(every)])
    for link in common.ordered(links):
        if not common.named(link, names):
            continue
        name = link["interface"]
        if through_nm:
            if common.bond_of(link):
                # the plugin knows no autoconnect-slaves of its own accord: a member brings its bond with it
                members = common.bond_of(link)["members"]
                steps += [nmcli.up(profile_uuid(one), wait, one) for one in members]
            made = common.bond_of(link) or common.vlan_of(link)
            steps.append(nmcli.up(profile_uuid(name), wait, "" if made else name))
        else:
            # ifdown stops a DHCP client by its pid file and flushes, whatever the file says now
            downs = [*common.bond_of(link).get("members", []), name]
            steps += [["ifdown", one] for one in common.staying(downs, before)]
            steps.append(["ifup", name])
    return steps


def restore(names: list[str], before: State) -> Commands:
    """Bring back what the old files say, then what only the kernel knew."""
    steps = common.gone(names, before)
    if before.get("nm"):
        steps.append(["nmcli", "connection", "reload"])
    for name in names:
        if name in before.get("profiles", {}):
            steps.append(nmcli.back(name, names, before))
        elif name in before["links"]:
            steps += common.emptied([name], before)
            if before["links"][name]["up"] and not before.get("nm"):
                steps.append(common.outliving(["ifup", name]))
    return steps + common.runtime(names, before)
