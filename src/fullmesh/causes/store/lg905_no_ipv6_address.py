"""Harmless: a name has no IPv6 address

c10d found no IPv6 address for {host} and continues with IPv4. The job only fails if the same line
appears for IPv4.

**Prove:** getent ahosts {host}

**Fix:** Nothing to do.

**Source:** read: socket.cpp tries IPv6, then IPv4
"""

from __future__ import annotations

from fullmesh.causes.logs import LogCause, Pattern, Severity
from fullmesh.causes.store.patterns import TARGET

CAUSE = LogCause(
    "LG-905",
    __doc__,
    examples=(
        (
            "[W socket.cpp:601] [c10d] The IPv6 network addresses of (node1, 29500) cannot be "
            "retrieved (gai error: -9 - Address family for hostname not supported)."
        ),
    ),
    patterns=(
        Pattern(
            "The IPv6 network addresses of",
            rf"The IPv6 network addresses of {TARGET} cannot be retrieved"
            r"(?: \(gai error: (?P<reason>-\d+))?",
        ),
    ),
    severity=Severity.HARMLESS,
    key=("host",),
)
