# Copyright (c) the Fullmesh contributors
# SPDX-License-Identifier: MIT
"""Send queries to the kernel's network configuration, and unpack the answers: netlink(7), rtnetlink(7).

A query takes microseconds, needs no iproute2 and no right. Standard library only.
"""

from __future__ import annotations

import socket
import struct
from typing import NamedTuple

NETLINK_ROUTE = 0
FAILED, DONE = 2, 3
REQUEST, DUMP = 1, 0x300
HEAD = struct.Struct("=IHHII")
KIND_MASK = 0x3FFF  # the two highest bits of a kind are flags
SECONDS = 2.0
ANSWER_MOST = 1 << 18
MESSAGES_MOST = 8192


class NetlinkMessage(NamedTuple):
    """One message of an answer: its type, and the bytes behind its head."""

    kind: int
    body: bytes


def pack_attribute(kind: int, value: bytes) -> bytes:
    """Pack one attribute with the padding of rtnetlink(7)."""
    size = 4 + len(value)
    return struct.pack("=HH", size, kind) + value + b"\0" * (-size % 4)


def unpack_attribute_list(raw: bytes) -> list[tuple[int, bytes]]:
    """Unpack attributes in their order."""
    found = []
    while len(raw) >= 4:  # noqa: PLR2004 (an attribute's head)
        size, kind = struct.unpack_from("=HH", raw)
        if size < 4:  # noqa: PLR2004 (as above)
            break
        found.append((kind & KIND_MASK, raw[4:size]))
        raw = raw[size + -size % 4 :]
    return found


def unpack_attributes(raw: bytes) -> dict[int, bytes]:
    """Unpack attributes by kind."""
    return dict(unpack_attribute_list(raw))


def open_route_socket() -> socket.socket:
    """Open a socket for queries about interfaces, routes and queues."""
    sock = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, NETLINK_ROUTE)
    sock.settimeout(SECONDS)
    return sock


def split_messages(raw: bytes) -> list[NetlinkMessage]:
    """Split an answer into its messages."""
    found = []
    while len(raw) >= HEAD.size:
        size, kind = HEAD.unpack_from(raw)[:2]
        if size < HEAD.size:
            break
        found.append(NetlinkMessage(kind, raw[HEAD.size : size]))
        raw = raw[size + -size % 4 :]
    return found


def dump_objects(sock: socket.socket, kind: int, body: bytes) -> list[bytes]:
    """Return the bodies of all objects that the kernel lists for a query. [] if it refuses the query."""
    sock.send(HEAD.pack(HEAD.size + len(body), kind, REQUEST | DUMP, 1, 0) + body)
    found: list[bytes] = []
    while len(found) < MESSAGES_MOST:
        for message in split_messages(sock.recv(ANSWER_MOST)):
            if message.kind in (FAILED, DONE):
                return found
            found.append(message.body)
    return found
