# Copyright (c) the Fullmesh contributors
# SPDX-License-Identifier: MIT
"""Leases of before that an undo would come back to, and that somebody else has by now. Stdlib only."""

from __future__ import annotations

from typing import TYPE_CHECKING

from . import reach, static_ip
from .machine import LinkError

if TYPE_CHECKING:
    from collections.abc import Container, Mapping

    from ..tools.ip import IpLink
    from ..transaction.engine import KernelGoal


def find_taken_leases(kernel: KernelGoal, seen: Mapping[str, IpLink]) -> dict[str, tuple[str, str]]:
    """The IPv4 leases of before that another host has by now: {interface: (address, its MAC)}.

    A lease that ended may have been given to somebody else; the link knows.
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
            owner = reach.find_duplicate_host(name, state["mac"], address)
            if owner:
                found[name] = (address, owner)
    return found


def refuse_taken_leases(taken: dict[str, tuple[str, str]], moves: str) -> None:
    """Refuse an undo after which this node would be looked for at an address of somebody else."""
    for name, (address, owner) in sorted(taken.items()):
        if address == moves:
            raise LinkError(
                f"[IP-105] {address}, the lease that {name} had before, is used by the host with "
                f"MAC {owner} by now, so nobody would "
                "find this node after the undo. Take it from that host, let the DHCP server keep it for this node, "
                "and run the undo again."
            )


def exclude_interfaces(kernel: KernelGoal, names: Container[str]) -> KernelGoal:
    """The kernel's view without some interfaces: what their owner makes of the old files is right."""
    return {
        **kernel,
        "links": {name: one for name, one in kernel["links"].items() if name not in names},
        "routes": [one for one in kernel["routes"] if one[1] not in names],
        "connected": [one for one in kernel["connected"] if one[1] not in names],
    }
