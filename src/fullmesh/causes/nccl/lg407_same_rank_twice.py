"""NCCL: two processes have the same rank number

Rank {rank} of {size} checked in twice: two processes have the same RANK.

**Place:** the two processes with RANK {rank}

**Prove:** on all nodes, run `env | grep -E '^(RANK|NODE_RANK)'` and `pgrep -af torchrun`

**Fix:** Give every node its own node rank (fullmesh_node_rank) and end processes of earlier
attempts.

**Source:** read: nccl bootstrap.cc:335
"""

from __future__ import annotations

from fullmesh.causes.engine import Explains
from fullmesh.causes.logs import LogCause, Pattern, RecordedLog

CAUSE = LogCause(
    "LG-407",
    __doc__,
    examples=(
        (
            "node1:1:2 [0] bootstrap.cc:348 NCCL WARN Bootstrap Root : rank 1 of 4 ranks has "
            "already checked in"
        ),
    ),
    patterns=(
        Pattern(
            "has already checked in",
            r"rank (?P<rank>\d+) of (?P<size>\d+) ranks has already checked in",
        ),
    ),
    explains=(Explains(("LG-409",)),),
    key=("rank",),
    weight=92,
    recorded=(
        RecordedLog(
            "nccl duplicate rank",
            (
                "n:1:2 [0] bootstrap.cc:348 NCCL WARN Bootstrap Root : rank 1 of 4 ranks has "
                "already checked in"
            ),
        ),
    ),
)
