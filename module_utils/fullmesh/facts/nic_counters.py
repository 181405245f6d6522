# Copyright (c) the Fullmesh contributors
# SPDX-License-Identifier: MIT
"""Read a NIC's counters of lost packets as ethtool(8) does (linux/ethtool.h), without that program.

Discarded packets of RoCE are no error of any RDMA device, so its counters in sysfs do not have them. Runs on nodes as
well without this package (node_programs/fullmesh_nic_counters.py is a link to it): standard library only.
"""

from __future__ import annotations

import array
import contextlib
import fcntl
import os
import re
import socket
import struct
import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

NET = "/sys/class/net"
# Packets that arrived and were discarded because buffers were full: mlx5, bnxt_en and ice.
DISCARDS = r"rx_discards_phy|rx_prio[0-7]_discards|rx_prio[0-7]_buf_discard|rx_total_discard_pkts|rx_dropped\.nic"
# Packets that a cable or an optical module has damaged.
DAMAGED = r"rx_crc_errors_phy|rx_symbol_err_phy|rx_fcs_err_frames|rx_crc_errors\.nic"
DISCARD = re.compile(DISCARDS)
LOSS = re.compile(f"{DISCARDS}|{DAMAGED}")
SIOCETHTOOL = 0x8946
GET_STRINGS, GET_STATISTICS, GET_SET_SIZE = 0x1B, 0x1D, 0x37
STATISTICS_SET = 1  # ETH_SS_STATS
REQUEST = struct.Struct("16sP16x")  # struct ifreq
SET_SIZE = struct.Struct("=IIQI")  # struct ethtool_sset_info
STRINGS = struct.Struct("=III")  # struct ethtool_gstrings
VALUES = struct.Struct("=II")  # struct ethtool_stats
NAME_SIZE, VALUE_SIZE = 32, 8
NAME_MOST = 15  # bytes of an interface's name
COUNT_MOST = 1 << 15  # mlx5 has some 100 for each of up to 128 channels
DEPTH = 4  # a VLAN on a bond has its NICs two levels below
NICS_MOST = 16
SECONDS = 2.0  # the firmware of a NIC may hang


def call_ethtool(sock: socket.socket, interface: str, data: bytes, room: int) -> bytes:
    """Send a request about an interface. Return the kernel's answer, with *room* bytes after *data*.

    Raises:
        OSError: the driver does not support it, or the interface is gone.
    """
    buffer = array.array("B", data + bytes(room))
    address, _ = buffer.buffer_info()
    fcntl.ioctl(sock, SIOCETHTOOL, REQUEST.pack(interface.encode(), address))
    return buffer.tobytes()


def read_statistics(interface: str) -> dict[str, int]:
    """Return all counters of an interface's driver by their names. {} if it has none.

    Kernels before 2026 fill in as many counters as the driver has now, which may be more than it had a moment ago. So
    there is room for twice as many.
    """
    if not 0 < len(interface.encode()) <= NAME_MOST:
        return {}
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        try:
            asked = SET_SIZE.pack(GET_SET_SIZE, 0, 1 << STATISTICS_SET, 0)
            _, _, has, count = SET_SIZE.unpack(call_ethtool(sock, interface, asked, 0))
            if not has or not 0 < count <= COUNT_MOST:
                return {}
            asked = STRINGS.pack(GET_STRINGS, STATISTICS_SET, count)
            names = call_ethtool(sock, interface, asked, 2 * count * NAME_SIZE)
            asked = VALUES.pack(GET_STATISTICS, count)
            values = call_ethtool(sock, interface, asked, 2 * count * VALUE_SIZE)
        except OSError:
            return {}
    if STRINGS.unpack_from(names)[2] != count or VALUES.unpack_from(values)[1] != count:
        return {}  # the driver has just changed its channels
    return dict(zip(parse_names(names, count), parse_values(values, count)))


def parse_names(answer: bytes, count: int) -> list[str]:
    """Return the names of an answer to GET_STRINGS."""
    starts = range(STRINGS.size, STRINGS.size + count * NAME_SIZE, NAME_SIZE)
    return [
        answer[at : at + NAME_SIZE].partition(b"\0")[0].decode("ascii", "replace") for at in starts
    ]


def parse_values(answer: bytes, count: int) -> tuple[int, ...]:
    """Return the values of an answer to GET_STATISTICS."""
    return struct.unpack_from(f"={count}Q", answer, VALUES.size)


def list_nics(interface: str, depth: int = DEPTH) -> list[str]:
    """Return the NICs below an interface: those of a bond, the one of a VLAN, or the interface itself."""
    if not interface or "/" in interface or not depth:
        return []
    try:
        entries = sorted(os.listdir(f"{NET}/{interface}"))
    except OSError:
        return []
    below = [one[len("lower_") :] for one in entries if one.startswith("lower_")]
    found = [nic for one in below[:NICS_MOST] for nic in list_nics(one, depth - 1)]
    return list(dict.fromkeys(found)) or [interface]


def read_losses(interfaces: Iterable[str]) -> dict[str, dict[str, int]]:
    """Return the counters of lost packets of the NICs below some interfaces, by NIC. Those that hang are left out."""
    found: dict[str, dict[str, int]] = {}
    nics = sorted({nic for one in interfaces for nic in list_nics(one)})[:NICS_MOST]
    reader = threading.Thread(target=add_losses, args=(nics, found), daemon=True)
    reader.start()
    reader.join(SECONDS)
    return dict(found)


def add_losses(nics: Sequence[str], found: dict[str, dict[str, int]]) -> None:
    """Add the counters of lost packets of each NIC that has any to *found*."""
    for nic in nics:
        with contextlib.suppress(OSError):
            held = {n: count for n, count in read_statistics(nic).items() if LOSS.fullmatch(n)}
            if held:
                found[nic] = held
