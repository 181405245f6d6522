# Copyright (c) the Fullmesh contributors
# SPDX-License-Identifier: MIT
"""Find old leases that an undo would return to and that another host has now. Standard library only."""

from __future__ import annotations

from typing import TYPE_CHECKING

from . import reach, static_ip
from .machine import LinkError

if TYPE_CHECKING:
    from collections.abc import Container, Mapping

    from ..tools.ip import IpLink
    from ..transaction.engine import KernelGoal


def find_taken_leases(kernel: KernelGoal, seen: Mapping[str, IpLink]) -> dict[str, tuple[str, str]]:
    """Return the old IPv4 leases that another host has now: {interface: (address, its MAC)}.

    The DHCP server may have given an ended lease to another host. An ARP probe shows that.
    """
    have = {one["address"].split("/")[0] for state in seen.values() for one in state["addresses"]}
    found = {}
    for name, link in sorted(kernel["links"].items()):
        state = seen.get(name)
        # a bond's member does not speak for itself
        if state is None or not state["carrier"] or state["master"]:
            continue
        for value in static_ip.of_family(link.get("leases", []), 4):
            address = value.split("/")[0]
            if address in have:
                continue
            owner = reach.find_duplicate_host(name, seen, address)
            if owner:
                found[name] = (address, owner)
    return found


def refuse_taken_leases(taken: dict[str, tuple[str, str]], moves: str) -> None:
    """Refuse an undo that would move this node to an address of another host."""
    for name, (address, owner) in sorted(taken.items()):
        if address == moves:
            raise LinkError(
                f"[IP-105] {address}, the lease that {name} had before, is used by the host with "
                f"MAC {owner} now, so this node "
                "could not be reached after the undo. Fix: remove it from that host, reserve it for this node on the "
                "DHCP server, and run the undo again."
            )


def exclude_interfaces(kernel: KernelGoal, names: Container[str]) -> KernelGoal:
    """Return the kernel's view without some interfaces, whose owners restore them from the old files."""
    return {
        **kernel,
        "links": {name: one for name, one in kernel["links"].items() if name not in names},
        "routes": [one for one in kernel["routes"] if one[1] not in names],
        "connected": [one for one in kernel["connected"] if one[1] not in names],
    }
