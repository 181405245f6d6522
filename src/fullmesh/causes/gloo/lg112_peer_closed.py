"""Gloo: a peer closed the connection

The peer {peer} ended in the middle of the job; why, stands in the log of that rank.

**Where:** the rank at {peer}

**Prove:** give explain-log the logs of all ranks; on that node: dmesg -T | tail; journalctl -k
--since -1h

**Fix:** Fix what ended the other rank; this message is its echo.

**Source:** measured; gloo pair.cc:551-560
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
        Pattern("Read error [", r"pair\.cc:\d+\] Read error \[(?P<peer>[^\]\s]{1,64})\]"),
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
