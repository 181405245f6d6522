"""Harmless: the node has no IPv6

c10d tried IPv6 first, which this node does not have (errno 97), and continues with IPv4.

**Prove:** cat /proc/sys/net/ipv6/conf/all/disable_ipv6

**Fix:** Nothing to do.

**Source:** read: socket.cpp tries IPv6, then IPv4, pytorch/pytorch#74316
"""

from __future__ import annotations

from fullmesh.causes.logs import LogCause, Pattern, RecordedLog, Severity

CAUSE = LogCause(
    "LG-912",
    __doc__,
    examples=(
        (
            "[W socket.cpp:401] [c10d] The server socket cannot be initialized on [::]:29501 "
            "(errno: 97 - Address family not supported by protocol)."
        ),
    ),
    patterns=(Pattern("(errno: 97 - Address family"),),
    severity=Severity.HARMLESS,
    recorded=(
        RecordedLog(
            "no IPv6",
            (
                "[W socket.cpp:558] [c10d] The client socket cannot be initialized to connect "
                "to [node1]:29501 (errno: 97 - Address family not supported by protocol)."
            ),
            heads=(),
            harmless=("LG-912",),
        ),
    ),
)
