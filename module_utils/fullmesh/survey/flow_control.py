# Copyright (c) the Fullmesh contributors
# SPDX-License-Identifier: MIT
"""Read the flow control of a RoCE port: PFC, DSCP and ECN. Nothing is set. Standard library only.

The kernel has PFC and the priority of each DSCP value, for all drivers (linux/dcbnl.h). NVIDIA's own driver also shows
ECN and the traffic class in sysfs.
"""

from __future__ import annotations

import os
import socket
import struct

from .net import read_kernel_file
from .netlink import (
    HEAD,
    REQUEST,
    open_route_socket,
    pack_attribute,
    split_messages,
    unpack_attribute_list,
    unpack_attributes,
)

GETDCB, IEEE_GET = 78, 21
NAME, IEEE, PFC, APPLICATIONS = 1, 13, 2, 3
SELECT_DSCP = 5
PRIORITIES = 8
ANSWER_MOST = 1 << 16
DCB = struct.Struct("=BBH")  # struct dcbmsg: family, command, padding
APPLICATION = struct.Struct("=BBH")  # struct dcb_app: selector, priority, protocol
NO_PRIORITY = "none"


def build_query(interface: str) -> bytes:
    """Build the query for the settings of IEEE 802.1Qaz."""
    body = DCB.pack(socket.AF_UNSPEC, IEEE_GET, 0)
    body += pack_attribute(NAME, interface.encode() + b"\0")
    return HEAD.pack(HEAD.size + len(body), GETDCB, REQUEST, 1, 0) + body


def parse_settings(answer: bytes) -> dict[str, str]:
    """Parse the kernel's answer. {} if the driver has no such settings."""
    for message in split_messages(answer):
        if message.kind == GETDCB:
            parts = unpack_attributes(message.body[DCB.size :])
            return parse_ieee(parts.get(IEEE, b""))
    return {}


def parse_ieee(raw: bytes) -> dict[str, str]:
    """Parse the settings of IEEE 802.1Qaz: the priorities with PFC, and the priority of each DSCP value."""
    parts, found = unpack_attributes(raw), {}
    if len(parts.get(PFC, b"")) > 1:
        enabled = parts[PFC][1]  # struct ieee_pfc: pfc_cap, pfc_en
        found["pfc"] = format_priorities([n for n in range(PRIORITIES) if enabled >> n & 1])
    if PFC in parts:
        values = []
        for _, one in unpack_attribute_list(parts.get(APPLICATIONS, b"")):
            if len(one) == APPLICATION.size:
                selector, priority, value = APPLICATION.unpack(one)
                if selector == SELECT_DSCP:
                    values.append((value, priority))
        found["dscp"] = ", ".join(f"{value} -> {to}" for value, to in sorted(values)) or NO_PRIORITY
    return found


def format_priorities(numbers: list[int]) -> str:
    """Format priorities: ``3, 4``, or ``none``."""
    return ", ".join(map(str, numbers)) or NO_PRIORITY


def read_ecn(folder: str) -> dict[str, str]:
    """Return the priorities with ECN, in the folder of an interface. {} if the driver does not show them."""
    places = [f"{folder}/ecn/roce_np/enable/{number}" for number in range(PRIORITIES)]
    if not os.path.isfile(places[0]):
        return {}
    return {
        "ecn": format_priorities(
            [n for n, one in enumerate(places) if read_kernel_file(one) == "1"]
        )
    }


def survey_flow_control(device: str, port: str, net: str = "/sys/class/net") -> dict[str, str]:
    """Return the flow control of a RoCE port by name, as far as its driver shows it.

    Args:
        device: folder of the RDMA device.
        port: folder of its port.
        net: folder of all interfaces.
    """
    interface = read_kernel_file(f"{port}/gid_attrs/ndevs/0")
    if not interface or "/" in interface:
        return {}
    try:
        with open_route_socket() as sock:
            sock.send(build_query(interface))
            found = parse_settings(sock.recv(ANSWER_MOST))
    except OSError:
        found = {}
    found.update(read_ecn(f"{net}/{interface}"))
    traffic_class = read_kernel_file(f"{device}/tc/{os.path.basename(port)}/traffic_class")
    return {**found, "traffic class": traffic_class} if traffic_class else found
