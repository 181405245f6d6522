"""Gloo: a peer closed the connection

The rank at {peer} ended in the middle of the job. Its own log has the reason.

**Place:** the rank at {peer}

**Prove:** give explain-log the logs of all ranks, and on that node: journalctl -k --since -1h

**Fix:** Correct the error of the other rank. This message is only its consequence.

**Source:** measured, gloo pair.cc:551-560
"""

from __future__ import annotations

from fullmesh.causes.logs import LogCause, Pattern, RecordedLog, Severity

CAUSE = LogCause(
    "LG-112",
    __doc__,
    looks=(
        (
            "RuntimeError: [/pytorch/third_party/gloo/gloo/transport/tcp/pair.cc:547] Connection "
            "closed by peer [10.77.0.12]:3519"
        ),
    ),
    patterns=(
        Pattern(
            "Connection closed by peer [",
            r"Connection closed by peer \[(?P<peer>[^\]\s]{1,64})\]",
        ),
        Pattern(
            "Read error [",
            r"pair\.cc:\d+\] Read error \[(?P<peer>[^\]\s]{1,64})\](?!:\d+: Bad address)",
        ),
    ),
    severity=Severity.SYMPTOM,
    follows_any=True,
    key=("peer",),
    recorded=(
        RecordedLog(
            "gloo peer died",
            (
                "RuntimeError: [/pytorch/third_party/gloo/gloo/transport/tcp/pair.cc:547] "
                "Connection closed by peer [10.77.0.12]:3519"
            ),
        ),
    ),
)
