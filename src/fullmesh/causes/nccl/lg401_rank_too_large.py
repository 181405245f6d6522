"""NCCL: a rank number is larger than the world size allows

A process called itself rank {rank} of {size}, so RANK and WORLD_SIZE do not match. Often every node
got the world size of a single node.

**Place:** the launcher of the node of this log

**Prove:** on that node: env | grep -E '^(RANK|WORLD_SIZE|LOCAL_RANK|NODE_RANK)'

**Fix:** WORLD_SIZE is the number of nodes times the processes per node. Let torchrun or one of
Fullmesh's launchers set RANK and WORLD_SIZE, and remove them from the script.

**Source:** read: nccl init.cc:2500, Lightning-AI/pytorch-lightning#20219
"""

from __future__ import annotations

from fullmesh.causes.engine import Explains
from fullmesh.causes.logs import ExplainOptions, Fields, LogCause, Pattern, RecordedLog


def derive_invalid_rank(fields: Fields, _options: ExplainOptions) -> Fields | None:
    """Return the fields if the rank is too large for the world size."""
    rank, size = int(fields["rank"]), int(fields["size"])
    return fields if rank >= size else None


CAUSE = LogCause(
    "LG-401",
    __doc__,
    examples=("ued37c44e4ea65b:6861:6861 [7] init.cc:981 NCCL WARN Invalid rank requested : 7/4",),
    patterns=(
        Pattern(
            "Invalid rank requested",
            r"Invalid rank requested : (?P<rank>\d{1,9})/(?P<size>\d{1,9})",
        ),
    ),
    explains=(Explains(("LG-201", "LG-210", "LG-316")),),
    key=("size",),
    derive=derive_invalid_rank,
    weight=95,
    recorded=(
        RecordedLog(
            "seed 3: rank",
            (
                "ued37c44e4ea65b:6861:6861 [7] init.cc:981 NCCL WARN Invalid rank requested : "
                "7/4\n"
                "ued37c44e4ea65b:6859:6859 [5] init.cc:981 NCCL WARN Invalid rank requested : "
                "5/4\n"
                "ued37c44e4ea65b:6860:6860 [6] NCCL INFO NET/IB : No device found."
            ),
            harmless=("LG-903",),
        ),
    ),
)
