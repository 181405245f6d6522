"""torch detected that ranks called different collectives

torch compared the collectives of all ranks, and they differ: rank {rank} is running {detail}.

**Place:** the ranks that the message names

**Prove:** every rank logs this message. Set TORCH_SHOW_CPP_STACKTRACES=1 and compare the lines of
code that they name.

**Fix:** Call no collective inside `if rank == 0`. Use the same order, shapes and types on every
rank.

**Source:** read: torch ProcessGroupWrapper.cpp (TORCH_DISTRIBUTED_DEBUG=DETAIL)
"""

from __future__ import annotations

from fullmesh.causes.logs import LogCause, Pattern, RecordedLog

CAUSE = LogCause(
    "LG-417",
    __doc__,
    examples=(
        (
            "RuntimeError: Detected mismatch between collectives on ranks. Rank 0 is running "
            "collective: CollectiveFingerPrint(SequenceNumber=3, OpType=ALLREDUCE, "
            "TensorShape=[10]), but Rank 1 is running collective: "
            "CollectiveFingerPrint(SequenceNumber=3, OpType=REDUCE)."
        ),
    ),
    patterns=(
        Pattern(
            "Detected mismatch between collectives",
            (
                r"Detected mismatch between collectives on ranks\. Rank (?P<rank>\d{1,7}) is running"
                r" (?P<detail>.{1,190})"
            ),
        ),
    ),
    weight=86,
    recorded=(
        RecordedLog(
            "fingerprints",
            (
                "RuntimeError: Detected mismatch between collectives on ranks. Rank 0 is "
                "running collective: CollectiveFingerPrint(SequenceNumber=3, "
                "OpType=ALLREDUCE), but Rank 1 is running collective: "
                "CollectiveFingerPrint(OpType=REDUCE)."
            ),
        ),
    ),
)
