"""A name server that logs each foreign name and answers it with an outside address.

It does not know the machine's own name, as on a network without its own name server.
"""

from __future__ import annotations

import socket
import struct
from pathlib import Path

OUTSIDE = "198.51.100.80"
LOG = Path("/run/fullmesh-test-names")


def name_of(query: bytes) -> tuple[str, int]:
    """Return the queried name, and the offset of its type."""
    labels, at = [], 12
    while query[at]:
        labels.append(query[at + 1 : at + 1 + query[at]].decode("ascii", "replace"))
        at += query[at] + 1
    return ".".join(labels), at + 1


def main() -> None:
    """Answer queries until killed."""
    own = socket.gethostname().split(".")[0]
    sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    sock.bind(("127.0.0.153", 53))
    LOG.touch()
    while True:
        query, peer = sock.recvfrom(512)
        name, at = name_of(query)
        question = query[12 : at + 4]
        if name.split(".")[0] == own or name.endswith(".arpa"):
            head, answer = b"\x81\x83\x00\x01\x00\x00\x00\x00\x00\x00", b""
        else:
            with LOG.open("a") as stream:
                stream.write(name + "\n")
            wanted = query[at : at + 2] == b"\x00\x01"
            head = b"\x81\x80\x00\x01" + struct.pack(">H", wanted) + b"\x00\x00\x00\x00"
            record = b"\xc0\x0c\x00\x01\x00\x01\x00\x00\x00\x01\x00\x04"
            answer = record + socket.inet_aton(OUTSIDE) if wanted else b""
        sock.sendto(query[:2] + head + question + answer, peer)


main()
