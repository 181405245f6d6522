"""Store: another service answers on the master port

A service that is not a TCPStore answered on the store's port (expected {expected}, got {got}).

**Place:** rank 0's node, or another machine if MASTER_ADDR is wrong

**Prove:** on rank 0's node, find the process that holds the master port: ss -ltnp

**Fix:** Choose a free MASTER_PORT, or end the service. MASTER_ADDR must be rank 0's node.

**Source:** measured
"""

from __future__ import annotations

from fullmesh.causes.engine import Explains
from fullmesh.causes.logs import LogCause, Pattern

CAUSE = LogCause(
    "LG-214",
    __doc__,
    examples=(
        (
            "RuntimeError: Ping failed, invalid value returned from server. Expected: 16938, "
            "Got: 759714643"
        ),
    ),
    patterns=(
        Pattern(
            "Ping failed, invalid value",
            (
                r"Ping failed, invalid value returned from server\. Expected: (?P<expected>-?\d+),"
                r" Got: (?P<got>-?\d+)"
            ),
        ),
    ),
    explains=(Explains(("LG-201", "LG-202", "LG-204", "LG-205", "LG-302", "LG-316")),),
    weight=93,
)
