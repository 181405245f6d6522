# Copyright (c) the Fullmesh contributors
# SPDX-License-Identifier: MIT
"""Find the ports behind a node's NICs, and the neighbors that answer on them. Standard library only.

Two machines on one cable know each other's hardware addresses without any configuration: an echo request to all nodes
(ff02::1, RFC 4291) makes each neighbor resolve the sender, and then both kernels list the other one.
"""

from __future__ import annotations

import contextlib
import os
import re
import selectors
import socket
import struct
import time
from typing import TYPE_CHECKING, cast

from ..files import split_words
from ..node_values import HARDWARE_ADDRESS, INTERFACE_NAME, MAC
from ..tools import ip, lldpcli

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ..network.machine import NetworkNode
    from ..schema.first_look import LldpNeighbor, NicNeighbor, NicPort
    from ..tools.ip import IpNeighbour

ALL_NODES = "ff02::1"
ECHO_REQUEST, ECHO_REPLY = 128, 129  # ICMPv6, RFC 4443
GREETINGS, ANSWER_SECONDS = 2, 0.5
NICS_MOST, NEIGHBORS_MOST = 32, 512
# One port of a NIC, in legacy mode as well as in switchdev mode: p0. Others are virtual functions (pf0vf1).
PHYSICAL_PORT = re.compile(r"\Ap[0-9]{1,3}\Z")


def list_nic_ports(node: NetworkNode) -> list[NicPort]:
    """List the NICs with the chip and the port that they belong to."""
    found: list[NicPort] = []
    for name in sorted(node.links()):
        if not INTERFACE_NAME.match(name):
            continue
        base = f"/sys/class/net/{name}"
        chips = [
            "".join(split_words(node.read(path)))
            for path in node.listed(f"{base}/device/infiniband/*/sys_image_guid")
        ]
        port = "".join(split_words(node.read(f"{base}/phys_port_name")))
        found.append(
            {
                "nic": name,
                "stacked": bool(node.listed(f"{base}/upper_*")),
                "chip": next((one for one in chips if HARDWARE_ADDRESS.match(one)), ""),
                "port": port if PHYSICAL_PORT.match(port) else "",
            }
        )
    return found


def greet_neighbors(nics: Sequence[str]) -> set[tuple[str, str]]:
    """Send echo requests to all nodes on the cables of the NICs. Return the NICs and the addresses that answered.

    Each address that answered is asked again by itself, so that the kernel has its hardware address too. Without root,
    the kernel allows the requests to the groups of net.ipv4.ping_group_range.
    """
    sockets: dict[socket.socket, tuple[str, int]] = {}
    for nic in nics[:NICS_MOST]:
        for kind in (socket.SOCK_RAW, socket.SOCK_DGRAM):
            with contextlib.suppress(OSError):
                index = socket.if_nametoindex(nic)
                one = socket.socket(socket.AF_INET6, kind, socket.IPPROTO_ICMPV6)
                one.setblocking(False)
                sockets[one] = (nic, index)
                break
    answered: set[tuple[str, str]] = set()
    for number in range(GREETINGS if sockets else 0):
        for one, (nic, index) in sockets.items():
            packet = struct.pack("!BBHHH", ECHO_REQUEST, 0, 0, os.getpid() & 0xFFFF, number)
            for address in (ALL_NODES, *(known for at, known in sorted(answered) if at == nic)):
                with contextlib.suppress(OSError):  # a NIC without IPv6
                    one.sendto(packet, (address, 0, 0, index))
        answered |= collect_answers(sockets)
    for one in sockets:
        one.close()
    return answered


def collect_answers(sockets: dict[socket.socket, tuple[str, int]]) -> set[tuple[str, str]]:
    """Return the NICs and the addresses that answer within ANSWER_SECONDS. *sockets*: with their NIC and its index."""
    found: set[tuple[str, str]] = set()
    end = time.monotonic() + ANSWER_SECONDS
    with selectors.DefaultSelector() as waiting:
        for one in sockets:
            waiting.register(one, selectors.EVENT_READ)
        while (left := end - time.monotonic()) > 0:
            for key, _events in waiting.select(left):
                one = cast("socket.socket", key.fileobj)
                nic, index = sockets[one]
                with contextlib.suppress(OSError):
                    packet, sender = one.recvfrom(2048)
                    if packet[0] == ECHO_REPLY and sender[3] == index:
                        found.add((nic, sender[0].partition("%")[0]))
            if len(found) >= NEIGHBORS_MOST:
                break
    return found


def list_neighbors(node: NetworkNode, nics: Sequence[str]) -> list[NicNeighbor]:
    """List the hardware addresses that the kernel knows on the NICs, each once."""
    return select_neighbors(ip.parse_neighbours(node.run(ip.build_neighbours_command())[1]), nics)


def select_neighbors(held: Sequence[IpNeighbour], nics: Sequence[str]) -> list[NicNeighbor]:
    """Select the hardware addresses on the NICs, each once. *held*: the kernel's entries."""
    seen = {
        (one["dev"], one["mac"].lower())
        for one in held
        if one["dev"] in nics and MAC.match(one["mac"])
    }
    found: list[NicNeighbor] = [{"nic": nic, "mac": mac} for nic, mac in sorted(seen)]
    return found[:NEIGHBORS_MOST]


def list_lldp_neighbors(node: NetworkNode, nics: Sequence[str]) -> list[LldpNeighbor]:
    """List the switches and hosts that a running lldpd has heard on the NICs."""
    code, text, _ = node.run(lldpcli.SHOW_NEIGHBORS)
    with contextlib.suppress(ValueError):
        if code == 0:
            heard = lldpcli.parse_neighbors(text)
            return [one for one in heard if one["nic"] in nics][:NEIGHBORS_MOST]
    return []
