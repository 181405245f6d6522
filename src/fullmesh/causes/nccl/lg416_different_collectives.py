"""The ranks called different collectives

The ranks called different collectives as number {number}: {operations}.

**Place:** the ranks that took another branch of the program: {ranks}

**Prove:** TORCH_DISTRIBUTED_DEBUG=DETAIL makes torch check every collective and name the line

**Fix:** Call no collective inside `if rank == 0` or in a loop whose length differs between ranks.
If the data is uneven, use join or drop_last.

**Source:** NVIDIA/nccl#1409 (BROADCAST against ALLREDUCE), torch's flight recorder docs
"""

from __future__ import annotations

from collections.abc import Iterator

from fullmesh.causes.logs import (
    LogCause,
    LogEvidence,
    LogFinding,
    LogLine,
    RecordedLog,
    join_first_items,
)
from fullmesh.causes.nccl.patterns import LATE


def find_different_collectives(evidence: LogEvidence) -> Iterator[LogFinding]:
    """Find watchdogs that name different collectives for the same number."""
    by_number: dict[str, dict[str, list[tuple[str, LogLine]]]] = {}
    for (rank, number, operation), line in evidence.facts.of("late"):
        by_number.setdefault(number, {}).setdefault(operation, []).append((rank, line))
    for number, by_operation in by_number.items():
        ranks = {rank for group in by_operation.values() for rank, _ in group}
        if len(by_operation) > 1 and len(ranks) > 1:
            rare = min(by_operation, key=lambda name: len(by_operation[name]))
            text = ", ".join(
                f"{name} on rank {join_first_items([rank for rank, _ in group])}"
                for name, group in by_operation.items()
            )
            fields = {
                "number": number,
                "operations": text,
                "ranks": join_first_items([r for r, _ in by_operation[rare]]),
            }
            yield CAUSE.make_finding(fields, [group[0][1] for group in by_operation.values()])
            return


CAUSE = LogCause(
    "LG-416",
    __doc__,
    find=find_different_collectives,
    facts=(LATE,),
    weight=81,
    recorded=(
        RecordedLog(
            "collectives differ",
            (
                "[rank7]:[E321 02:07:08.408271257 ProcessGroupNCCL.cpp:607] [Rank 7] Watchdog "
                "caught collective operation timeout: WorkNCCL(SeqNum=80078, OpType=BROADCAST, "
                "NumelIn=5056, NumelOut=5056, Timeout(ms)=600000) ran for 600026 milliseconds "
                "before timing out.\n"
                "[rank3]:[E321 02:07:08.408271257 ProcessGroupNCCL.cpp:607] [Rank 3] Watchdog "
                "caught collective operation timeout: WorkNCCL(SeqNum=80078, OpType=ALLREDUCE, "
                "NumelIn=5056, NumelOut=5056, Timeout(ms)=600000) ran for 600026 milliseconds "
                "before timing out."
            ),
            folded=("LG-415",),
        ),
    ),
)
