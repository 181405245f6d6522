# Copyright (c) the Fullmesh contributors
# SPDX-License-Identifier: MIT
"""Collect the RDMA ports that a rank uses: their GID tables and error counters, now and when the rank started."""

from __future__ import annotations

import os
import re
import threading
from typing import TYPE_CHECKING

import fullmesh_hang_calls as hang_calls
import fullmesh_hook as hook
import fullmesh_nic_counters as nic_counters

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from fullmesh.observed.hang import RankRdmaPort, RdmaPortState

OPENED = "/dev/infiniband/"
VERBS = "/sys/class/infiniband_verbs"
INTERFACE = re.compile(
    r"[A-Za-z0-9_][A-Za-z0-9_.@+-]{0,14}", re.ASCII
)  # as the controller accepts it
SECONDS = 2.0  # the counters of a NIC come from its firmware, which may hang


def read_node_ports() -> list[RankRdmaPort]:
    """Return all RDMA ports of this node, or those that were read in time."""
    found: list[RankRdmaPort] = []
    reader = threading.Thread(target=add_node_ports, args=(found,), daemon=True)
    reader.start()
    reader.join(SECONDS)
    return list(found)


def add_node_ports(found: list[RankRdmaPort]) -> None:
    """Add each RDMA port of this node to *found*."""
    for name, state in hook.read_rdma_ports().items():
        card, _, port = name.partition(":")
        folder = f"{hook.RDMA}/{card}/ports/{port}"
        interface = hook.read_sysfs(f"{folder}/gid_attrs/ndevs/0")
        interface = interface if INTERFACE.fullmatch(interface) else ""
        found.append(
            {
                "port": name,
                "interface": interface,
                "state": hook.read_sysfs(f"{folder}/state").rpartition(":")[2].strip(),
                "now": state,
            }
        )
    for one in found:
        state = one["now"]
        one["now"] = {**state, "errors": {**state["errors"], **sum_losses(one["interface"])}}


def sum_losses(interface: str) -> dict[str, int]:
    """Return the counters of lost packets of an interface, of all its NICs together.

    A rank does not read them at its start: the kernel reads them under a lock that all network settings need.
    """
    total: dict[str, int] = {}
    for held in nic_counters.read_losses([interface]).values():
        for name, count in held.items():
            total[name] = min(total.get(name, 0) + count, hook.LARGEST)
    return total


def list_open_devices(pid: int) -> set[str]:
    """Return the RDMA devices that a process has open."""
    try:
        numbers = os.listdir(f"/proc/{pid}/fd")
    except OSError:
        return set()  # it has ended, or is another account's
    links = {hang_calls.read_link(pid, int(number)) for number in numbers}
    return {
        hook.read_sysfs(f"{VERBS}/{os.path.basename(link)}/ibdev")
        for link in links
        if link.startswith(OPENED)
    }


def select_rank_ports(
    pid: int, known: Iterable[RankRdmaPort], start: Mapping[str, RdmaPortState]
) -> list[RankRdmaPort]:
    """Return the ports of the devices that a process has open, with their state when it started."""
    ports = list(known)
    devices = list_open_devices(pid) if ports else set()
    found: list[RankRdmaPort] = []
    for one in ports:
        if one["port"].partition(":")[0] in devices:
            found.append({**one})
            if one["port"] in start:
                found[-1]["start"] = start[one["port"]]
    return found
