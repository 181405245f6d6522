"""Print the 802.1Q tags of the frames on some interfaces, as a sorted list; 0 is a frame without a tag.

Run as ``tags.py SECONDS INTERFACE...``. The kernel removes a tag from the frame and delivers it in auxiliary data
(packet(7), PACKET_AUXDATA).
"""

from __future__ import annotations

import json
import select
import socket
import struct
import sys
import time

SOL_PACKET, PACKET_AUXDATA = 263, 8
AUXDATA = "=IIIHHHH"
TAGGED = 1 << 4  # TP_STATUS_VLAN_VALID
LACP = 0x8809


def listen(interface: str) -> socket.socket:
    """Open a socket that receives every frame of an interface."""
    listener = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))
    listener.setsockopt(SOL_PACKET, PACKET_AUXDATA, 1)
    listener.bind((interface, 0))
    return listener


def tags_of(listener: socket.socket) -> set[int]:
    """Return the tag of the next frame; no tag if the frame is LACP's."""
    frame, extra, _, _ = listener.recvmsg(2048, 256)
    if struct.unpack_from("!H", frame, 12)[0] == LACP:
        return set()
    heard = (struct.unpack_from(AUXDATA, data) for _, _, data in extra)
    return {tag & 0xFFF if status & TAGGED else 0 for status, _, _, _, _, tag, _ in heard}


def main() -> None:
    """Listen on all interfaces at the same time, and print the tags."""
    listeners = [listen(interface) for interface in sys.argv[2:]]
    tags: set[int] = set()
    end = time.monotonic() + float(sys.argv[1])
    while time.monotonic() < end:
        for listener in select.select(listeners, [], [], 0.2)[0]:
            tags |= tags_of(listener)
    sys.stdout.write(json.dumps(sorted(tags)))


if __name__ == "__main__":
    main()
