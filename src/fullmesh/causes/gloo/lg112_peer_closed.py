"""Gloo: a peer closed the connection

The rank at {peer} ended in the middle of the job.

**Place:** the rank at {peer}

**Prove:** pass the logs of all ranks to explain-log. On that node, `journalctl -k --since -1h` shows
whether the kernel killed the rank.

**Fix:** Correct the error of the other rank. This message is only its consequence.

**Source:** measured, gloo pair.cc:551-560
"""

from __future__ import annotations

from fullmesh.causes.logs import (
    LogCause,
    Pattern,
    RecordedLog,
    Severity,
    describe_quiet_logs,
    list_closed_facts,
)

PATTERNS = (
    Pattern(
        "Connection closed by peer [",
        r"Connection closed by peer \[(?P<peer>[^\]\s]{1,64})\]",
    ),
    Pattern(
        "Read error [",
        r"pair\.cc:\d+\] Read error \[(?P<peer>[^\]\s]{1,64})\](?!:\d+: Bad address)",
    ),
)

CAUSE = LogCause(
    "LG-112",
    __doc__,
    examples=(
        (
            "RuntimeError: [/pytorch/third_party/gloo/gloo/transport/tcp/pair.cc:547] Connection "
            "closed by peer [10.77.0.12]:3519"
        ),
    ),
    patterns=PATTERNS,
    facts=list_closed_facts(PATTERNS),
    describe=describe_quiet_logs,
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
