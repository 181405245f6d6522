# Copyright (c) the Fullmesh contributors
# SPDX-License-Identifier: MIT
"""Find the addresses and networks in the files of network owners. Standard library only."""

from __future__ import annotations

import ipaddress
import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import Callable

# The folders of all owners' configuration.
CONFIGURED = (
    "/etc/netplan/*.yaml",
    "/run/netplan/*.yaml",
    "/etc/systemd/network/*.network",
    "/etc/systemd/network/*.network.d/*.conf",
    "/run/systemd/network/*.network",
    "/etc/NetworkManager/system-connections/*",
    "/run/NetworkManager/system-connections/*",
    "/etc/network/interfaces",
    "/etc/network/interfaces.d/*",
    "/etc/sysconfig/network-scripts/ifcfg-*",
    "/etc/sysconfig/network-scripts/route*",
)
WORD = re.compile(r"[0-9A-Fa-f.:]+(?:/\d+)?", re.ASCII)


def read_configured_networks(
    read: Callable[[str], str], listed: Callable[[str], list[str]]
) -> set[str]:
    """Return every address and network in the owners' files: ``10.0.0.5``, ``10.1.0.0/16``."""
    paths = {path for pattern in CONFIGURED for path in listed(pattern)}
    return {one for path in sorted(paths) for one in extract_addresses(read(path))}


def extract_addresses(text: str) -> set[str]:
    """Return every address in a text, and every network that has a prefix."""
    found = set()
    for word in WORD.findall(text):
        try:
            one = ipaddress.ip_interface(word)
        except ValueError:
            continue
        found |= {str(one.ip), str(one.network)}
    return found
