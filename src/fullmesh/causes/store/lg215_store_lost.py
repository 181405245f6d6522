"""Store: the connection to rank 0's store was lost

The store on rank 0 ended while a rank used it: rank 0 (or its agent) ended first.

**Place:** rank 0's node

**Prove:** read the end of rank 0's log. On its node: journalctl -k --since -1h

**Fix:** Fix the error that ended rank 0. This message is only its consequence.

**Source:** read: pytorch TCPStore.cpp, TCPStoreLibUvBackend.cpp, pytorch/pytorch#121944
"""

from __future__ import annotations

from fullmesh.causes.logs import LogCause, Pattern, RecordedLog, Severity

CAUSE = LogCause(
    "LG-215",
    __doc__,
    examples=(
        (
            "[W TCPStore.cpp:125] [c10d] recvValue failed on SocketImpl(fd=3, "
            "addr=[node2]:40000, remote=[node1]:29500): failed to recv, got 0 bytes"
        ),
    ),
    patterns=(
        Pattern("recvValue failed on SocketImpl"),
        Pattern("sendBytes failed on SocketImpl"),
        Pattern("ailed to recv, got 0 bytes"),
        Pattern(
            "Connection reset by peer",
            r"(?:RuntimeError|DistNetworkError): (?:\[\d+\] )?Connection reset by peer",
        ),
        Pattern("Broken pipe", r"(?:RuntimeError|DistNetworkError): (?:\[\d+\] )?Broken pipe"),
    ),
    severity=Severity.SYMPTOM,
    follows_any=True,
    after_end="LG-914",
    recorded=(
        RecordedLog(
            "store lost",
            (
                "[W TCPStore.cpp:125] [c10d] recvValue failed on SocketImpl(fd=3, addr=[n2]:4, "
                "remote=[n1]:29500): failed to recv, got 0 bytes"
            ),
        ),
        RecordedLog(
            "store reset while reading",
            "torch.distributed.DistNetworkError: Connection reset by peer",
        ),
    ),
)
