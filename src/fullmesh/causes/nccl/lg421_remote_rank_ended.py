"""NCCL: a remote rank ended

The other side closed a connection ({detail}): another rank ended first.

**Place:** the rank at the other end

**Prove:** pass the logs of all ranks to explain-log and find the rank whose log ends first.
`journalctl -k` on its node shows a kill by the OOM killer, `sacct -j JOB` one by Slurm.

**Fix:** Fix the error that ended the other rank. This message is only its consequence.

**Source:** NVIDIA/nccl#1232, read: libfabric's efa_errno.h
"""

from __future__ import annotations

from fullmesh.causes.engine import Explains
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
        "Connection closed by remote peer",
        r"Connection closed by remote peer (?P<detail>[^\s]{1,120})",
    ),
    # NCCL 2.28 does not know the peer of every connection
    Pattern(
        "Connection closed by remote peer",
        r"socketProgress: (?P<detail>Connection closed by remote peer)\s*$",
    ),
    Pattern(
        "remote process exited or there was a network error",
        r"(?P<detail>remote process exited or there was a network error)",
    ),
    Pattern(
        "Connection reset by peer",
        r"Call to recv from (?P<detail>\S{1,120}) failed ?: .{0,12}Connection reset by peer",
    ),
    # EFA: the peer answered before
    Pattern(
        "nresponsive re",
        r"(?P<detail>Unresponsive re(?:ceiver|mote) \((?:connection|was) previously \w{1,20}\))",
    ),
    Pattern("Socket recv failed while polling", r"(?P<detail>Socket recv failed while polling)"),
)


CAUSE = LogCause(
    "LG-421",
    __doc__,
    examples=(
        (
            "node1:39964:40044 [0] misc/socket.cc:49 NCCL WARN socketProgress: Connection closed "
            "by remote peer node1<57557>"
        ),
    ),
    patterns=PATTERNS,
    facts=list_closed_facts(PATTERNS),
    describe=describe_quiet_logs,
    severity=Severity.SYMPTOM,
    follows_any=True,
    explains=(Explains(("LG-422",)),),
    after_end="LG-914",
    recorded=(
        RecordedLog(
            "EFA: a peer that answered before",
            (
                "n:1:2 [0] process_completions:123 NCCL WARN NET/OFI Request completed with error. RC: 103. Error: "
                "4124 (Unresponsive receiver (connection previously established)). Completed length: 0"
            ),
        ),
    ),
)
