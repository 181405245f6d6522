# Copyright (c) the Fullmesh contributors
# SPDX-License-Identifier: MIT
"""Define ranges of ports: one type and one parser for every spelling on nodes and the controller."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

HIGHEST_PORT = 65535
# firewalld and the kernel's reserved ports write 1-2, ufw and iptables 1:2, ip_local_port_range "1<tab>2".
SPAN = re.compile(r"(\d{1,5})(?:\s*[-:]\s*(\d{1,5})|\s+(\d{1,5}))?", re.ASCII)


@dataclass(frozen=True, order=True)
class PortRange:
    """The ports ``first`` to ``last``, both included."""

    first: int
    last: int

    def __len__(self) -> int:
        return self.last - self.first + 1

    def __contains__(self, port: object) -> bool:
        return isinstance(port, int) and self.first <= port <= self.last

    def __str__(self) -> str:
        """Format the range for firewalld and the kernel's list of reserved ports."""
        return str(self.first) if self.first == self.last else f"{self.first}-{self.last}"

    @property
    def sysctl(self) -> str:
        """Format the range for ``net.ipv4.ip_local_port_range``."""
        return f"{self.first} {self.last}"

    def shared(self, other: PortRange) -> int:
        """Return the number of ports that are in both ranges."""
        return max(0, min(self.last, other.last) - max(self.first, other.first) + 1)


KERNEL_RANGE = PortRange(32768, 60999)  # the default: net/ipv4/af_inet.c, inet_init_net


def parse_port_range(text: object) -> PortRange | None:
    """Parse ``50000-54095``, ``50000:54095``, ``50000 54095`` or ``29500``. None for anything else."""
    found = SPAN.fullmatch(str(text).strip())
    if not found:
        return None
    first = int(found[1])
    last = int(found[2] or found[3] or first)
    return PortRange(first, last) if first <= last <= HIGHEST_PORT else None


def parse_port_ranges(text: str) -> list[PortRange]:
    """Parse ``8080,30000-32767``, the format of ip_local_reserved_ports and ufw. Other parts are left out."""
    found = (parse_port_range(part) for part in text.split(","))
    return [one for one in found if one is not None]


def parse_port_entry(text: object) -> tuple[PortRange, str] | None:
    """Parse firewalld's ``50000-54095/tcp`` into range and protocol. None for anything else."""
    numbers, _, protocol = str(text).strip().lower().partition("/")
    span = parse_port_range(numbers)
    return (span, protocol) if span and protocol else None


def is_port_listed(entries: Iterable[str], port: int, protocol: str = "tcp") -> bool:
    """Return whether a port is in one of these entries (``50000-54095/tcp``)."""
    found = (parse_port_entry(one) for one in entries)
    return any(one is not None and port in one[0] and one[1] == protocol for one in found)
