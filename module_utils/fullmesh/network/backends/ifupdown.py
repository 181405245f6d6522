# Copyright (c) the Fullmesh contributors
# SPDX-License-Identifier: MIT
"""Render links as stanzas of ifupdown (interfaces(5)), which Debian uses without NetworkManager and netplan.

Bonds and VLANs are created with `ip` in the stanza itself. So the packages ifenslave and vlan are not needed, and they
do nothing if installed, because they react to their own options. Standard library only.
"""

from __future__ import annotations

import fnmatch
import os
import re
import tempfile
from typing import TYPE_CHECKING

from ...files import SPACE, split_lines, split_whole_lines, split_words
from . import common, kernel_state

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ...commands import SplitRunner
    from ..types import Changes, Files, LinkSettings, OwnerState
    from .common import Commands, Lister, Reader

NAME = "ifupdown"
MAIN = "/etc/network/interfaces"
PATH = "/etc/network/interfaces.d/fullmesh"
OURS = [PATH]
READS: list[str] = []
# Words that begin a stanza (interfaces(5)). Following lines belong to it until the next such word.
STANZA = re.compile(
    r"\s*(iface|mapping|auto|allow-\S+|no-auto-down|no-scripts|source|source-directory|template|rename)(\s|$)",
    re.ASCII,
)
# no-auto-down and no-scripts apply to an interface with any owner
LISTS = re.compile(r"\s*(auto|allow-\S+)\s", re.ASCII)
# The parts of a stanza that a link of the plan covers (interfaces(5), and the options of resolvconf, ifenslave and
# vlan): addressing, and lease options. In the format of `common.find_lost_settings`.
COVERED = {
    "": """
        method=static|dhcp|manual|auto|bootp address netmask network broadcast gateway metric mtu media
        dns-nameserver dns-nameservers dns-search dns-domain description accept_ra accept-ra autoconf privext
        dad-attempts dad-interval ll-attempts dhcp client leasehours leasetime request_prefix
        scope=global|link|site|host
        bond-slaves bond-master bond-mode bond-miimon bond-updelay bond-downdelay bond-lacp-rate
        bond-xmit-hash-policy bond-ad-select bond-primary bond_slaves bond_master bond_mode bond_miimon bond_updelay
        bond_downdelay bond_lacp_rate bond-lacp_rate bond_xmit_hash_policy bond-xmit_hash_policy bond_ad_select
        bond-ad_select bond_primary
        vlan-raw-device vlan_raw_device vlan-id vlan_id
    """
}
HOOKS = ("pre-up", "up", "post-up", "down", "pre-down", "post-down")
# Commands of a stanza that a link of the plan covers: a route of the main table, the link's state and MTU.
COVERED_COMMAND = re.compile(
    r"(?:/sbin/|/usr/sbin/|/bin/)?"
    r"(?:(?:ip\s+(?:-[46]\s+|-family\s+inet6?\s+)?route|route(?:\s+-A\s+inet6?)?)\s+"
    r"(?:add|replace|append|change|del|delete)\s+"
    r"(?:-A\s+inet6?\s+)?"
    + common.ROUTE_WORDS.pattern
    + r"|ip\s+link\s+set\s+(?:dev\s+)?\S+(?:\s+(?:up|down|mtu\s+\d+))+"
    r"|ifconfig\s+\S+(?:\s+(?:up|down|mtu\s+\d+))+)"
    r"(?:\s*\|\|\s*(?:true|:|/bin/true))?",
    re.ASCII | re.IGNORECASE,
)
# source-directory takes no other names (run-parts's rule)
PLAIN_NAME = re.compile(r"[A-Za-z0-9_-]+\Z")
DEPTH = 5
# dhclient(8) as ifup calls it; dhcpcd(8): one that is limited to a family has it in its file's name
DHCP_PID_FILES = (
    "/run/dhclient.{}.pid",
    "/run/dhcpcd/{}.pid",
    "/run/dhcpcd/{}-4.pid",
    "/run/dhcpcd/{}-6.pid",
)
CONF = "/proc/sys/net/ipv6/conf/%s/%s"


def build_files(links: list[LinkSettings]) -> Files:
    """Return Fullmesh's file for all links, with VLANs after their parents."""
    if not links:
        return {}
    blocks = [f"iface {name} inet manual\n" for name in common.map_bond_members(links)]
    blocks += [render_stanzas(link) for link in common.sort_links(links)]
    return {PATH: common.HEAD + "\n" + "\n".join(blocks)}


def get_file_mode(path: str) -> int:
    """Return the mode that Debian's own file has."""
    return 0o644


def render_stanzas(link: LinkSettings) -> str:
    """Render one interface: one stanza per address. Options of the whole interface are in the first one."""
    name = link["interface"]
    first = render_device_options(link)
    if link.get("mtu"):
        first.append("pre-up ip link set {} mtu {}".format(name, link["mtu"]))
    first += render_dns_options(link)
    lines = ["auto " + name]
    wanted = link["addresses"] or [""]
    for value in wanted:
        lines += render_address_stanza(link, value)
        lines += ["    " + line for line in first]
        first = []
    # after the last address, so that every gateway is a neighbour by then
    lines += [
        "    up ip route replace {} via {} dev {}".format(one["to"], one["via"], name)
        for one in link.get("routes", [])
    ]
    return "\n".join(lines) + "\n"


def render_address_stanza(link: LinkSettings, value: str) -> list[str]:
    """Render the stanza of one address. The gateway is in the first stanza of its family."""
    name = link["interface"]
    if not value:
        return [f"iface {name} inet manual", f"    up ip link set {name} up"]
    family = common.ip_version_of(value)
    kind = "inet" if family == 4 else "inet6"  # noqa: PLR2004 (IP version)
    lines = [f"iface {name} {kind} static", "    address " + value]
    if kind == "inet6":
        # the plan has no router-announced addresses
        lines += ["    autoconf 0", "    accept_ra 0"]
    gateway = link.get("gateway") or ""
    first = value == common.of_family(link["addresses"], family)[0]
    if first and gateway and common.ip_version_of(gateway) == family:
        lines.append("    gateway " + gateway)
    return lines


def render_dns_options(link: LinkSettings) -> list[str]:
    """Return options for the package resolvconf or openresolv.

    Without them the administrator manages /etc/resolv.conf.
    """
    lines = ["dns-nameservers " + " ".join(link["dns"])] if link.get("dns") else []
    return lines + (["dns-search " + " ".join(link["search"])] if link.get("search") else [])


def render_device_options(link: LinkSettings) -> list[str]:
    """Return the commands that create the device. ifupdown only knows names, so a hardware address is checked."""
    name = link["interface"]
    there = f"test -d /sys/class/net/{name} || "
    vlan = common.get_vlan(link)
    if vlan:
        add = "ip link add link {} name {} type vlan id {}".format(vlan["parent"], name, vlan["id"])
        up = "pre-up ip link set {} up".format(vlan["parent"])
        return [up, "pre-up " + there + add, "post-down ip link delete " + name]
    if common.get_bond(link):
        options = [
            (key, value) for key, value in common.list_bond_options(link) if key != "primary"
        ]
        words = " ".join(key + " " + value for key, value in options)
        lines = [f"pre-up {there}ip link add {name} type bond {words}"]
        for one in common.get_bond(link)["members"]:
            # only an interface that is down can be enslaved
            enslave = f"{{ ip link set {one} down; ip link set {one} master {name}; }}"
            lines.append(f"pre-up test -e /sys/class/net/{name}/lower_{one} || {enslave}")
        if common.get_bond(link).get("primary"):
            primary = common.get_bond(link)["primary"]
            lines.append(f"pre-up ip link set {name} type bond primary {primary}")
        return [*lines, "post-down ip link delete " + name]
    if link.get("mac"):
        # an address on the wrong interface is worse than none
        return ["pre-up grep -qix {} /sys/class/net/{}/address".format(link["mac"], name)]
    return []


# --- files of others --------------------------------------------------------------------------


def map_stanza_files(read: Reader, listed: Lister) -> dict[str, list[str]]:
    """Return interface -> the files with a stanza for it, following source and source-directory."""
    found: dict[str, list[str]] = {}
    for path in list_sourced_files(read, listed, MAIN, 0):
        for line in split_lines(read(path)):
            words = split_words(line)
            if words[:1] == ["iface"] and words[1:]:
                found.setdefault(words[1], []).append(path)
    return found


def list_sourced_files(read: Reader, listed: Lister, path: str, depth: int) -> list[str]:
    """Return *path* and the files that it includes, in order. The depth is limited, as in ifupdown."""
    result = [path]
    for line in split_lines(read(path)) if depth < DEPTH else []:
        words = split_words(line)
        if len(words) < 2 or words[0] not in ("source", "source-directory"):  # noqa: PLR2004 (word and value)
            continue
        base = os.path.join(os.path.dirname(path), words[1])
        inner = listed(base) if words[0] == "source" else listed(base.rstrip("/") + "/*")
        if words[0] == "source-directory":
            inner = [one for one in inner if PLAIN_NAME.match(os.path.basename(one))]
        for one in inner:
            if one not in result:
                result += list_sourced_files(read, listed, one, depth + 1)
    return result


def find_foreign_changes(read: Reader, listed: Lister, links: list[LinkSettings]) -> Changes:
    """Disable stanzas of Fullmesh's interfaces in other files, and let the main file include Fullmesh's."""
    names = common.list_affected_interfaces(links)
    changes: Changes = {}
    paths = list_sourced_files(read, listed, MAIN, 0)
    for path in paths:
        text = read(path)
        without = comment_out_stanzas(text, names)
        if path != PATH and without != text:
            nics = {
                name: read_own_macs(read, name, path)
                for name in common.list_physical_interfaces(links)
            }
            common.refuse_lost_settings(path, find_lost_stanza_settings(text, names, nics))
            changes[path] = without
    if PATH not in list_sourced_files(read, add_own_file(listed), MAIN, 0):
        text = changes.get(MAIN) or read(MAIN)
        end = "" if not text or text.endswith("\n") else "\n"
        changes[MAIN] = text + end + "source " + PATH + "\n"
    changes.update(common.disable_cloud_init(read, changes))
    return changes


def add_own_file(listed: Lister) -> Lister:
    """Return *listed* as if Fullmesh's file existed, to test whether a pattern of the main file includes it."""

    def patched(pattern: str) -> list[str]:
        found = list(listed(pattern))
        if fnmatch.fnmatchcase(PATH, pattern) and pattern.count("/") == PATH.count("/"):
            found.append(PATH)
        return found

    return patched


def comment_out_stanzas(text: str, names: list[str]) -> str:
    """Return the file with the stanzas of Fullmesh's interfaces as comments and every other byte unchanged."""
    result: list[str] = []
    inside = False
    for group in group_continued_lines(split_whole_lines(text)):
        head = "".join(group).replace(
            "\\\n", ""
        )  # a line may begin with one that has nothing but its backslash
        words = split_words(head)
        if STANZA.match(head):
            inside = words[0] == "iface" and words[1:2] != [] and words[1].split(":")[0] in names
        if inside and words and not words[0].startswith("#"):
            result += [common.comment_out(line) for line in group]
        elif LISTS.match(head):
            result += drop_from_auto_line(group, names)
        else:
            result += group
    return "".join(result)


def read_own_macs(read: Reader, name: str, path: str) -> set[str]:
    """Return the hardware address that a file may name because the interface has it in any case.

    Empty if another address was set, unless the file is cloud-init's, which identifies a NIC by its own address. In
    other files such a line may have set it.
    """
    # 3: it was set from user space (sysfs-class-net of the kernel)
    was_set = read(f"/sys/class/net/{name}/addr_assign_type").strip(SPACE) == "3"
    stays = not was_set or common.is_from_cloud_init(path, read(path))
    return common.read_permanent_macs(read, [name]) if stays else set()


def find_lost_stanza_settings(
    text: str, names: list[str], nics: Mapping[str, set[str]]
) -> list[tuple[str, str]]:
    """Return the settings in stanzas of *names* that a link of the plan does not cover.

    Args:
        text: the file.
        names: Fullmesh's interfaces.
        nics: the physical ones, and their own hardware addresses.
    """
    settings: list[common.Setting] = []
    name = ""
    for group in group_continued_lines(split_whole_lines(text)):
        words = split_words("".join(group).replace("\\\n", " "), 1)
        if not words or words[0].startswith("#"):
            continue
        key, value = words[0], " ".join(words[1:]).strip(SPACE)
        if STANZA.match(key + " "):
            head = split_words(value)
            name = head[0].split(":")[0] if key == "iface" and head else ""
            if name in names:
                settings += [("", "method", one) for one in head[2:3]]
                settings += [("", one, " ".join(head[4:])) for one in head[3:4]]
        elif name in names:
            same = key == "hwaddress" and split_words(value)[-1:] and split_words(value)[-1].lower()
            covered = key in HOOKS and COVERED_COMMAND.fullmatch(value)
            if not covered and not (same and same in nics.get(name, set())):
                settings.append(("", key, value))
    return common.find_lost_settings(settings, COVERED)


def group_continued_lines(lines: list[str]) -> list[list[str]]:
    """Group lines that are joined by a backslash at the end."""
    groups: list[list[str]] = []
    tied = False
    for line in lines:
        if tied:
            groups[-1].append(line)
        else:
            groups.append([line])
        tied = line.rstrip("\n").endswith("\\")
    return groups


def drop_from_auto_line(group: list[str], names: list[str]) -> list[str]:
    """Return an auto or allow-* line without Fullmesh's interfaces."""
    words = split_words("".join(group).replace("\\\n", " "))
    # a backslash at the end of the shortened line would join the next line to it
    words = [word for word in words if word != "\\"]
    keep = [word for word in words[1:] if word.split(":")[0] not in names]
    if len(keep) == len(words) - 1:
        return group
    out = [common.comment_out(line) for line in group]
    if not out[-1].endswith("\n"):
        out[-1] += "\n"
    return out + ([" ".join([words[0], *keep]) + "\n"] if keep else [])


# --- apply and restore ------------------------------------------------------------------------


def check_files(run: SplitRunner, scratch: Files) -> str:
    """Let ifup check Fullmesh's file in a dry run. Return its error, or ""."""
    text = scratch.get(PATH, "")
    if not text:
        return ""
    with tempfile.NamedTemporaryFile("w", prefix="fullmesh-interfaces-") as stream:
        stream.write(text)
        stream.flush()
        rc, out, err = run(["ifup", "--no-act", "--all", "--force", "-i", stream.name])
        return "" if rc == 0 else (err or out).strip(SPACE).replace(stream.name, PATH) or f"rc {rc}"


def read_snapshot(run: SplitRunner, names: list[str]) -> OwnerState:
    """Return the kernel's state, the interfaces that ifupdown considers up, and the running DHCP clients."""
    state = kernel_state.read_kernel_state(run, names)
    # one "eth1=eth1" per line (ifquery fails if an interface is not up)
    lines = split_lines(run(["ifquery", "--state"])[1])
    state["ifstate"] = sorted({line.partition("=")[0] for line in lines} & set(names))
    state["dhcp_clients"] = {name: list_running_clients(run, name) for name in names}
    state["ipv6"] = {name: read_autoconf_values(run, name) for name in names}
    return state


def list_running_clients(run: SplitRunner, name: str) -> list[str]:
    """Return the pid files of an interface's running DHCP clients.

    ifup starts dhclient, or dhcpcd if that is not installed (Debian 13). A killed client leaves its file.
    """
    found = []
    for pattern in DHCP_PID_FILES:
        path = pattern.format(name)
        rc, number, _ = run(["cat", path])
        if rc == 0 and run(["cat", f"/proc/{number.strip(SPACE)}/comm"])[0] == 0:
            found.append(path)
    return found


def build_stop_command(path: str, name: str) -> list[str]:
    """Return the command that stops a DHCP client. It does not release the lease, which the rollback may need."""
    if "dhclient" in path:
        return ["dhclient", "-x", "-pf", path, name]
    families = [one for one in ("-4", "-6") if path.endswith(f"{one}.pid")]
    return ["dhcpcd", "-x", *families, name]


def read_autoconf_values(run: SplitRunner, name: str) -> dict[str, str]:
    """Return the kernel's settings for router advertisements.

    Fullmesh's stanzas disable them, and ifdown never enables them.
    """
    answers = {key: run(["cat", CONF % (name, key)]) for key in ("autoconf", "accept_ra")}
    return {key: out.strip(SPACE) for key, (rc, out, _) in answers.items() if rc == 0}


def build_activation_commands(
    links: list[LinkSettings], before: OwnerState, wait: int = 30, names: list[str] | None = None
) -> Commands:
    """Stop the DHCP client, remove old addresses and force the interfaces up, since ifdown would read the new file."""
    steps = kernel_state.build_remake_commands(links, before)
    chosen = [link for link in common.sort_links(links) if is_stanza_named(link, names)]
    for name in common.list_affected_interfaces(chosen):
        for path in before.get("dhcp_clients", {}).get(name, []):
            steps.append(build_stop_command(path, name))
    steps += kernel_state.build_flush_commands(common.list_affected_interfaces(chosen), before)
    # IPv4 routes disappear with the last address. An IPv6 route that the new stanza drops would stay until the next
    # boot.
    old = [one["dev"] for one in before.get("routes", []) if one["family"] == "-6"]
    flush = ["ip", "-6", "route", "flush", "proto", "boot", "dev"]
    steps += [[*flush, name] for name in common.list_affected_interfaces(chosen) if name in old]
    return steps + [["ifup", "--force", link["interface"]] for link in chosen]


def is_stanza_named(link: LinkSettings, names: list[str] | None) -> bool:
    """Return whether the link, or a member of its bond, is among *names*."""
    return names is None or bool({*common.list_affected_interfaces([link])} & {*names})


def build_reactivation_commands(names: list[str], before: OwnerState) -> Commands:
    """Return the commands that bring interfaces up with the old files, then restore state that only the kernel had."""
    steps = kernel_state.build_removal_commands(names, before) + kernel_state.build_flush_commands(
        names, before
    )
    for name in kernel_state.list_kept_interfaces(names, before):
        # before ifup: an old stanza with another value takes precedence
        for key, value in sorted(before.get("ipv6", {}).get(name, {}).items()):
            write = 'echo "$1" > "$0"'
            steps.append(["/bin/sh", "-c", write, CONF % (name, key), value])
    for name in names:
        if name in before.get("ifstate", []):
            steps.append(kernel_state.wrap_in_scope(["ifup", "--force", name]))
        else:
            # ifupdown's note that it is up: only Fullmesh brought it up
            steps.append(["rm", "-f", "/run/network/ifstate." + name])
    return steps + kernel_state.build_runtime_commands(names, before)
