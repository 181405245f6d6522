"""Harmless but slow: reverse lookups of peers fail

The reverse lookup of a peer failed (err={error}). The job works, but each lookup can take seconds,
and c10d's messages show wrong addresses.

**Prove:** time getent hosts PEER-ADDRESS on each node

**Fix:** ./fullmesh apply -i INVENTORY --tags network writes the peers into /etc/hosts.

**Source:** measured: 10.2 s without the entries, 0.02 s with them, pytorch/pytorch#159007
"""

from __future__ import annotations

from fullmesh.causes.logs import LogCause, Pattern, Severity

CAUSE = LogCause(
    "LG-906",
    __doc__,
    examples=(
        "[W socket.cpp:764] [c10d] The hostname of the client socket cannot be retrieved. err=-3",
    ),
    patterns=(
        Pattern(
            "hostname of the client socket cannot be retrieved",
            r"hostname of the client socket cannot be retrieved\. err=(?P<error>-?\d+)",
        ),
    ),
    severity=Severity.HARMLESS,
)
