"""torch's store may not use the port

The store could not bind port {port} (errno 13). Only root may use ports below 1024
(net.ipv4.ip_unprivileged_port_start), or SELinux forbids the port.

**Place:** the node of rank 0: MASTER_PORT or --rdzv-endpoint

**Prove:** on that node: sysctl net.ipv4.ip_unprivileged_port_start; ausearch -m avc -ts recent

**Fix:** Use a port above 1024 that is open between the nodes (29500).

**Source:** read: bind(2) and torch's socket.cpp
"""

from __future__ import annotations

from fullmesh.causes.engine import Explains
from fullmesh.causes.logs import LogCause, Pattern

CAUSE = LogCause(
    "LG-217",
    __doc__,
    examples=(
        "[W socket.cpp:436] [c10d] The server socket has failed to bind to [::]:80 (errno: 13 - Permission denied).",
    ),
    patterns=(
        Pattern(
            "errno: 13 - Permission denied",
            r"server socket has failed to bind to \S{1,80}:(?P<port>\d{1,5}) \(errno: 13 ",
        ),
    ),
    explains=(Explains(("LG-201", "LG-302")),),
    weight=92,
)
