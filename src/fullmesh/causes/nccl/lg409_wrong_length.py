"""NCCL: a message has the wrong length (different versions or settings)

NCCL received {got} bytes and expected {wanted}. The nodes run different NCCL versions or settings,
or the wrong peer replied.

**Place:** the nodes that differ

**Prove:** on all nodes, compare the version that NCCL_DEBUG=VERSION prints and `env | grep ^NCCL_ |
sort`, or run ./fullmesh verify -i INVENTORY (VC-104)

**Fix:** Install one NCCL version on all nodes (roles nccl, torch_runtime) and use one environment
(role cluster_env).

**Source:** NVIDIA/nccl#1328, #1176, #1273
"""

from __future__ import annotations

from fullmesh.causes.logs import LogCause, Pattern, RecordedLog

CAUSE = LogCause(
    "LG-409",
    __doc__,
    examples=(
        (
            "node1:1:2 [0] bootstrap.cc:133 NCCL WARN Bootstrap : Message truncated : received "
            "1024 bytes instead of 256"
        ),
    ),
    patterns=(
        Pattern(
            "Message truncated",
            r"Message truncated : received (?P<got>\d+) bytes instead of (?P<wanted>\d+)",
        ),
    ),
    weight=80,
    recorded=(
        RecordedLog(
            "nccl truncated",
            (
                "n:1:2 [0] bootstrap.cc:133 NCCL WARN Bootstrap : Message truncated : received "
                "1024 bytes instead of 256"
            ),
        ),
    ),
)
