"""Print the 802.1Q tags of the frames on one card, as a sorted list; 0 is a frame without a tag.

Run as ``tags.py CARD SECONDS``. The kernel takes a tag off before anybody sees the frame and hands it over beside it
(packet(7), PACKET_AUXDATA).
"""

import json
import socket
import struct
import sys
import time

SOL_PACKET, PACKET_AUXDATA = 263, 8
AUXDATA = "=IIIHHHH"
TAGGED = 1 << 4  # TP_STATUS_VLAN_VALID
LACP = 0x8809


def main() -> None:
    """Listen, print."""
    card, seconds = sys.argv[1], float(sys.argv[2])
    tags = set()
    with socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3)) as listener:
        listener.setsockopt(SOL_PACKET, PACKET_AUXDATA, 1)
        listener.bind((card, 0))
        listener.settimeout(0.2)
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            try:
                frame, extra, _, _ = listener.recvmsg(2048, 256)
            except TimeoutError:
                continue
            for _, _, data in extra:
                status, _, _, _, _, tag, _ = struct.unpack_from(AUXDATA, data)
                if struct.unpack_from("!H", frame, 12)[0] != LACP:
                    tags.add(tag & 0xFFF if status & TAGGED else 0)
    sys.stdout.write(json.dumps(sorted(tags)))


if __name__ == "__main__":
    main()
