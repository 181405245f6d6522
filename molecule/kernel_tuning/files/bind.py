"""Bind port 0 often and print the ports that the kernel picked: the pin itself, not its file."""

from __future__ import annotations

import json
import socket
import sys

sockets = []
for _ in range(200):
    one = socket.socket()
    one.bind(("", 0))
    sockets.append(one)
sys.stdout.write(json.dumps(sorted(one.getsockname()[1] for one in sockets)) + "\n")
