"""harmless but slow: reverse lookups of peers fail

The reverse lookup of a peer failed (err={error}): the job works, but each lookup can cost seconds,
and addresses in c10d's messages are nonsense.

**Prove:** time getent hosts PEER-ADDRESS on each node

**Fix:** ./fullmesh apply -i INVENTORY --tags network (peers in /etc/hosts): measured 10.2 s against
0.02 s.

**Source:** measured; pytorch/pytorch#159007
"""

from __future__ import annotations

from fullmesh.causes.logs import LogCause, Pattern, Severity

CAUSE = LogCause(
    "LG-906",
    __doc__,
    looks=(
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
