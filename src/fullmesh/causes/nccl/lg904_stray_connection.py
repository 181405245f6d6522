"""Harmless: NCCL discarded a stray connection

A program that is not part of the job (a port scanner or a monitor) connected to NCCL's port, and
NCCL discarded the connection.

**Prove:** ss -tnp on the node while it happens shows the program's address

**Fix:** Nothing to do. Role peer_firewall limits the data ports to the cluster's nodes.

**Source:** measured with the library 2.32.3, which survives it
"""

from __future__ import annotations

from fullmesh.causes.logs import LogCause, Pattern, RecordedLog, Severity

CAUSE = LogCause(
    "LG-904",
    __doc__,
    examples=(
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
