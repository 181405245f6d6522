"""store: the master port is in use

Port {port} on rank 0's node is taken by another process (an earlier job that did not end, or an
outgoing connection).

**Where:** the node of this log (rank 0's node, or a node that wrongly believes to be it)

**Prove:** on that node: ss -ltnp 'sport = :{port}' (names the process); sysctl
net.ipv4.ip_local_reserved_ports

**Fix:** End the old process or choose another port; ./fullmesh apply --tags tuning keeps named
ports out of the kernel's hands.

**Source:** measured; pytorch/pytorch#126510, #73320; onedr0p/home-ops#11712
"""

from __future__ import annotations

from fullmesh.causes.engine import Explains
from fullmesh.causes.logs import LogCause, Pattern

CAUSE = LogCause(
    "LG-213",
    __doc__,
    looks=(
        (
            "torch.distributed.DistNetworkError: The server socket has failed to listen on any "
            "local network address. port: 29500, useIpv6: false, code: -98, name: EADDRINUSE, "
            "message: address already in use"
        ),
        (
            "[W socket.cpp:426] [c10d] The server socket has failed to bind to [::]:29500 "
            "(errno: 98 - Address already in use)."
        ),
    ),
    patterns=(
        Pattern(
            "name: EADDRINUSE",
            r"port: (?P<port>\d{1,5}), useIpv6: \w+, code: -\d+, name: EADDRINUSE",
        ),
        Pattern("(errno: 98", r"failed to bind to \S{0,100}:(?P<port>\d{1,5}) \(errno: 98"),
    ),
    explains=(Explains(("LG-201", "LG-202", "LG-204", "LG-205", "LG-302", "LG-316")),),
    key=("port",),
    weight=93,
)
