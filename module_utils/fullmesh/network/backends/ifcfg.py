# Copyright (c) the Fullmesh contributors
# SPDX-License-Identifier: MIT
"""Other people's ifcfg files, from which EL9's NetworkManager still takes profiles: read and quieted, never written.

EL9's installer writes keyfiles, its cloud-init wrote ifcfg files; EL10 has no plugin for them. The keys are those of
nm-settings-ifcfg-rh(5). Stdlib only.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...files import lines_of, whole_lines
from . import common

if TYPE_CHECKING:
    from ..types import Changes
    from .common import Lister, Reader

SCRIPTS = "/etc/sysconfig/network-scripts"
# Where version 0.1.0 and older wrote files of ours; a next run takes them away.
WRITTEN = [SCRIPTS + "/ifcfg-*", SCRIPTS + "/route-*", SCRIPTS + "/route6-*"]

# What begins with these says nothing of addresses.
LOST = {
    "ZONE": "zone",
    "MACADDR": "MAC",
    "ETHTOOL_OPTS": "card",
    "KEY_MGMT": "802.1X",
    "IEEE_8021X": "802.1X",
    "ROUTING_RULE": "rules",
}


def values_of(text: str) -> dict[str, str]:
    """Read an ifcfg file as far as is needed."""
    result = {}
    for line in lines_of(text):
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


def ignored(path: str) -> bool:
    """What the plugin takes for a backup, and does not read."""
    return path.endswith(("~", ".bak", ".orig", ".rpmnew", ".rpmorig", ".rpmsave"))


def quieted_files(read: Reader, listed: Lister, names: list[str], macs: set[str]) -> Changes:
    """Files of others that mean our interfaces stay, but are no longer brought up."""
    changes: Changes = {}
    for path in listed(SCRIPTS + "/ifcfg-*"):
        text = read(path)
        if ignored(path) or text.startswith(common.HEAD) or not means(text, names, macs):
            continue
        if values_of(text).get("ONBOOT", "yes").lower() not in ("no", "false", "0"):
            common.refuse_lost(path, lost(text))
            changes[path] = quieted(text)
    return changes


def lost(text: str) -> list[tuple[str, str]]:
    """What a file gives its interface beside addresses, routes and names, and a profile of ours does not."""
    found = []
    for key, value in values_of(text).items():
        kind = next((word for start, word in LOST.items() if key.startswith(start)), "")
        if kind and value:
            found.append((kind, f"{key}={'...' if kind == '802.1X' else value}"))
    return found


def quieted(text: str) -> str:
    """The file with ONBOOT=no and every other byte as it was."""
    lines = whole_lines(text)
    if lines and not lines[-1].endswith("\n"):
        lines[-1] += "\n"
    for number, line in enumerate(lines):
        if line.strip().startswith("ONBOOT="):
            lines[number] = common.commented(line)
    return "".join(lines) + "ONBOOT=no\n"
