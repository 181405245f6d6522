# Copyright (c) the Fullmesh contributors
# SPDX-License-Identifier: MIT
"""Test the plan's rails: connect from the own address on each rail to that of each peer, and query the kernel.

RDMA uses the route and the neighbour entry that the kernel has for the same two addresses, so most faults of a rail
show without an RDMA device. Runs on nodes: standard library only.
"""

from __future__ import annotations

import contextlib
import socket
import struct
import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, TypedDict

from ..facts import neighbors
from ..facts.sockets import run_ip
from ..survey.net import BY_HAND, find_duplicate_addresses, read_interface_addresses
from ..survey.queues import survey_queues
from ..tools import ip
from .pairs import probe_links, refute_black_holes
from .ways import DST, IIF, PROTO, SRC, KernelRoutes

if TYPE_CHECKING:
    from ..schema.first_look import NicNeighbor
    from ..schema.ladder import (
        LinkResult,
        ProbeOrigin,
        ProbeTarget,
        RailLink,
        RailOwner,
        RailProbe,
        RailTarget,
    )
    from ..schema.survey import ShapedQueue

WINDOW = 1024  # connections at the same time
TCP = {PROTO: socket.IPPROTO_TCP}


class RailPath(TypedDict):
    """The kernel's decisions about packets to and from an address (RailLink)."""

    dev: str
    via: str
    error: str
    refused: str


def connect_over_rails(
    targets: list[RailTarget], me: ProbeOrigin, seconds: float
) -> dict[tuple[str, int], LinkResult]:
    """Connect to all targets. Return the results by address and port.

    Connections that seem to lose large packets are tried once more, rail by rail, as long as there is time.
    """
    wanted: list[ProbeTarget] = [
        {
            "node": one["node"],
            "address": one["address"],
            "port": one["port"],
            "kind": one["kind"],
            "own": one["own"],
        }
        for one in targets
    ]
    found = probe_links(wanted, me, seconds, WINDOW)
    checked: list[LinkResult] = []
    begun = time.monotonic()
    for own in sorted({one["own"] for one in targets}):
        there = {(one["address"], one["port"]) for one in targets if one["own"] == own}
        mine = [one for one in found if (one["address"], one["port"]) in there]
        if time.monotonic() - begun > seconds:
            checked += mine
            continue
        ways = [one for one in wanted if one["own"] == own]
        checked += refute_black_holes(mine, ways, {**me, "address": own}, seconds)[0]
    return {(one["address"], one["port"]): one for one in checked}


def query_path(own: str, nic: str, prefix: str, peer: str) -> RailPath:
    """Query the kernel for its decisions about packets from *own* to a peer, and from the peer to *own*.

    Args:
        own: the address of a rail.
        nic: its interface.
        prefix: the address with its prefix.
        peer: the peer's address on the rail.
    """
    found: RailPath = {"dev": "", "via": "", "error": "", "refused": ""}
    with contextlib.suppress(OSError, ValueError, struct.error):
        kernel = KernelRoutes(own, nic, prefix)
        try:
            there = kernel.ask(TCP, {DST: peer, SRC: own})
            back = kernel.ask({**TCP, IIF: kernel.index}, {DST: own, SRC: peer})
        finally:
            kernel.close()
        found = {
            "dev": there["dev"],
            "via": there["via"],
            "error": there["error"],
            "refused": back["error"],
        }
    return found


def find_owners(mine: dict[str, str], nics: dict[str, str]) -> list[RailOwner]:
    """Find other machines with this node's addresses.

    Args:
        mine: rail -> own IPv4 address on it.
        nics: address -> interface.
    """
    with ThreadPoolExecutor(max(1, len(mine))) as pool:  # each waits for answers
        asked = {
            rail: pool.submit(find_duplicate_addresses, nics[own], own)
            for rail, own in mine.items()
            if own in nics and ":" not in own
        }
    return [{"rail": rail, "mac": mac} for rail, one in asked.items() for mac in one.result()]


def list_queues(nics: list[str]) -> list[ShapedQueue]:
    """List the queues of interfaces that limit, lose or delay packets."""
    found: list[ShapedQueue] = []
    for nic in nics:
        with contextlib.suppress(OSError, ValueError):
            found += survey_queues(nic)
    return found


def probe_rails(targets: list[RailTarget], me: ProbeOrigin, seconds: float) -> RailProbe:
    """Test all rails of this node."""
    held = {
        prefix.partition("/")[0]: (nic, prefix)
        for nic, prefixes in read_interface_addresses().items()
        for prefix in prefixes
    }
    nics = {address: nic for address, (nic, _) in held.items()}
    mine = {one["rail"]: one["own"] for one in targets}
    duplicates = find_owners(mine, nics)
    met = connect_over_rails(targets, me, seconds)
    known = {
        (one["address"], one["dev"]): one
        for one in ip.parse_neighbours(run_ip(*ip.build_neighbours_command("nud", "all")[1:]))
    }
    links: list[RailLink] = []
    for one in targets:
        said = met.get((one["address"], one["port"]))
        if said is None:
            continue
        none: RailPath = {"dev": "", "via": "", "error": "EADDRNOTAVAIL", "refused": ""}
        own = held.get(one["own"])
        path = query_path(one["own"], *own, one["address"]) if own else none
        near = known.get((path["via"] or one["address"], path["dev"]))
        links.append(
            {
                "rail": one["rail"],
                "node": one["node"],
                "own": one["own"],
                "address": one["address"],
                "verdict": said["verdict"],
                "remark": said["remark"],
                "errno": said["errno"],
                "rtt_ms": said["rtt_ms"],
                **path,
                "mac": near["mac"].lower() if near else "",
                "by_hand": bool(near and {*near["states"]} & {*BY_HAND}),
            }
        )
    failed = {nics[one["own"]] for one in links if one["verdict"] != "open" and one["own"] in nics}
    return {
        "links": links,
        "duplicates": duplicates,
        "queues": list_queues(sorted({nics[own] for own in mine.values() if own in nics})),
        "heard": hear_neighbors(sorted(failed)),
    }


def hear_neighbors(nics: list[str]) -> list[NicNeighbor]:
    """Return the neighbors that answer on interfaces whose cables may be swapped.

    The kernel keeps the entries of neighbors that were there before the cables were swapped.
    """
    if not nics:
        return []
    answered = neighbors.greet_neighbors(nics)
    known = ip.parse_neighbours(run_ip(*ip.build_neighbours_command()[1:]))
    return neighbors.select_neighbors(
        [one for one in known if (one["dev"], one["address"]) in answered], nics
    )
