"""Keep one connection to a peer open during all changes; write the time of every answer to a file."""

from __future__ import annotations

import pathlib
import socket
import sys
import time

link = socket.create_connection((sys.argv[1], int(sys.argv[2])), 5)
link.settimeout(10)
beat = pathlib.Path(sys.argv[3])
while True:
    link.sendall(b"x")
    if link.recv(1) != b"x":
        break
    beat.write_text(str(time.time()), encoding="utf-8")
    time.sleep(0.2)
beat.unlink()
