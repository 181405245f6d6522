"""Connect to each port and print the kernel's result: open, refused (no listener), blocked (a firewall)."""

from __future__ import annotations

import errno
import json
import socket
import sys

WORDS = {errno.ECONNREFUSED: "refused", errno.EHOSTUNREACH: "blocked", errno.EACCES: "blocked"}


def knock(address: str, port: int) -> str:
    """Return one word for one port."""
    try:
        socket.create_connection((address, port), 3).close()
    except OSError as error:
        return WORDS.get(
            error.errno or 0, "blocked" if isinstance(error, TimeoutError) else str(error)
        )
    return "open"


sys.stdout.write(json.dumps({port: knock(sys.argv[1], int(port)) for port in sys.argv[2:]}) + "\n")
