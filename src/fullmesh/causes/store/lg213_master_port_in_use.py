"""Store: another process uses the master port

Another process uses port {port} on rank 0's node: an earlier job that did not end, or an outgoing
connection.

**Place:** rank 0's node, which is the node of this log, unless a wrong setting makes this node act
as rank 0

**Prove:** on that node: ss -ltnp 'sport = :{port}' (names the process), then sysctl
net.ipv4.ip_local_reserved_ports

**Fix:** End the old process or choose another port. ./fullmesh apply --tags tuning reserves named
ports, so that the kernel does not assign them.

**Source:** measured, pytorch/pytorch#126510, #73320, onedr0p/home-ops#11712
"""

from __future__ import annotations

from fullmesh.causes.engine import Explains
from fullmesh.causes.logs import LogCause, Pattern

CAUSE = LogCause(
    "LG-213",
    __doc__,
    examples=(
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
