"""harmless: NCCL discarded a stray connection

Something connected to NCCL's port that is not of this job (a port scanner, a monitor) and was
discarded.

**Prove:** ss -tnp on the node while it happens; who scans the data ports?

**Fix:** Nothing to do; role peer_firewall keeps strangers out of the data range.

**Source:** measured with the library 2.32.3, which survives it
"""

from __future__ import annotations

from fullmesh.causes.logs import LogCause, Pattern, RecordedLog, Severity

CAUSE = LogCause(
    "LG-904",
    __doc__,
    looks=(
        (
            "node1:1:2 [0] NCCL INFO socketFinalizeAccept: socket connected with magic mismatch, "
            "discarding"
        ),
    ),
    patterns=(
        Pattern("magic mismatch", r"magic mismatch.{0,40}discard"),
        Pattern("socketFinalizeAccept: wrong magic"),
    ),
    severity=Severity.HARMLESS,
    recorded=(
        RecordedLog(
            "nccl stray",
            (
                "n:1:2 [0] NCCL INFO socketFinalizeAccept: socket connected with magic "
                "mismatch, discarding"
            ),
            heads=(),
            harmless=("LG-904",),
        ),
        RecordedLog(
            "nccl stray, old",
            "n:1:2 [0] misc/socket.cc:441 NCCL WARN socketFinalizeAccept: wrong magic 0 != 4f3a",
            heads=(),
            harmless=("LG-904",),
        ),
    ),
)
