"""NCCL: a retried connection was aborted, and an earlier error is the cause

NCCL's second attempt to connect to {peer} was aborted. This is a bug in NCCL's error handling. The
error of the first attempt is the cause.

**Place:** the node that has the address {peer}

**Prove:** set NCCL_DEBUG=INFO and read the first error, then run ./fullmesh verify -i INVENTORY
(check L2)

**Fix:** ./fullmesh apply -i INVENTORY --tags tuning,firewall (pins the port range and opens it to
the peers). NCCL 2.24 and newer log the reason.

**Source:** NVIDIA/nccl#1515
"""

from __future__ import annotations

from fullmesh.causes.engine import Explains
from fullmesh.causes.logs import LogCause, Pattern, RecordedLog, Severity
from fullmesh.causes.nccl.patterns import ADDRESS

CAUSE = LogCause(
    "LG-405",
    __doc__,
    examples=(
        (
            "ubuntu:39964:40075 [0] misc/socket.cc:483 NCCL WARN socketStartConnect: Connect to "
            "10.0.0.2<45763> failed : Software caused connection abort"
        ),
    ),
    patterns=(
        Pattern(
            "Software caused connection abort",
            rf"Connect to {ADDRESS} failed ?: Software caused connection abort",
        ),
    ),
    severity=Severity.SYMPTOM,
    follows_any=True,
    explains=(Explains(("LG-421", "LG-422")),),
    key=("peer",),
    recorded=(
        RecordedLog(
            "nccl abort",
            (
                "ubuntu:39964:40075 [0] misc/socket.cc:483 NCCL WARN socketStartConnect: "
                "Connect to 10.0.0.2<45763> failed : Software caused connection abort\n"
                "ubuntu:1:2 [0] misc/socket.cc:49 NCCL WARN socketProgress: Connection closed "
                "by remote peer node1<57557>"
            ),
            folded=("LG-421",),
        ),
    ),
)
