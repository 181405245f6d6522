"""Record handshakes on the wire: incoming ones before this node's firewall, outgoing ones after it.

Standard library only.
"""

from __future__ import annotations

import ctypes
import socket
import struct

SO_ATTACH_FILTER = 26  # asm-generic/socket.h (the socket module does not define it)
ETHER_ALL = (
    3  # a tap for one protocol does not see outgoing packets (net/core/dev.c, dev_queue_xmit_nit)
)
# Classic BPF: "this IP version, TCP, SYN set", counted from the IP header (SOCK_DGRAM packet socket).
SYN_FILTERS: dict[int, tuple[tuple[int, int, int, int], ...]] = {
    socket.AF_INET: (
        (0x30, 0, 0, 0),  # ldb version
        (0x54, 0, 0, 0xF0),
        (0x15, 0, 6, 0x40),
        (0x30, 0, 0, 9),  # ldb protocol
        (0x15, 0, 4, 6),  # TCP?
        (0xB1, 0, 0, 0),  # x = header length
        (0x50, 0, 0, 13),  # ldb flags
        (0x45, 0, 1, 0x02),  # SYN?
        (0x06, 0, 0, 0xFFFF),
        (0x06, 0, 0, 0),
    ),
    socket.AF_INET6: (
        (0x30, 0, 0, 0),
        (0x54, 0, 0, 0xF0),
        (0x15, 0, 5, 0x60),
        (0x30, 0, 0, 6),
        (0x15, 0, 3, 6),
        (0x30, 0, 0, 53),
        (0x45, 0, 1, 0x02),
        (0x06, 0, 0, 0xFFFF),
        (0x06, 0, 0, 0),
    ),
}
ACK = 0x10


def open_tap(interface: str, family: int) -> socket.socket | None:
    """Open a tap for handshakes. None if the kernel or a sandbox forbids it."""
    steps = SYN_FILTERS[family]
    program = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *step) for step in steps))
    pointer = struct.pack("HL", len(steps), ctypes.addressof(program))
    try:
        tap = socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM, 0)  # deaf until it is bound
    except OSError:
        return None
    try:
        tap.setsockopt(socket.SOL_SOCKET, SO_ATTACH_FILTER, pointer)
        tap.bind((interface, ETHER_ALL))
    except OSError:
        tap.close()
        return None
    tap.setblocking(False)
    return tap


def parse_handshake(packet: bytes) -> tuple[str, str, int, bool] | None:
    """Return source, target and port of a handshake, and whether it is the answer."""
    if not packet:
        return None
    four = packet[0] >> 4 == 4  # noqa: PLR2004 (the protocol's own number)
    start, width, places = (20, 4, (12, 16)) if four else (40, 16, (8, 24))
    if four:
        start = (packet[0] & 0x0F) * 4
    try:
        family = socket.AF_INET if four else socket.AF_INET6
        near, far = (socket.inet_ntop(family, packet[p : p + width]) for p in places)
        ports = struct.unpack_from(">HH", packet, start)
        answer = bool(packet[start + 13] & ACK)
    except (struct.error, ValueError, IndexError):
        return None
    return (far, near, ports[0], True) if answer else (near, far, ports[1], False)


def group_ports_by_pair(flows: set[tuple[str, str, int]]) -> dict[str, list[int]]:
    """Group ports by ``asking>asked``."""
    found: dict[str, list[int]] = {}
    for near, far, port in sorted(flows):
        found.setdefault(near + ">" + far, []).append(port)
    return found
