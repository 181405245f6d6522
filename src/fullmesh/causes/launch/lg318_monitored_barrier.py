"""A monitored barrier names ranks that did not reach it

Rank {rank} did not reach monitoredBarrier: it ended, hangs, or took another path through the code.

**Place:** rank {rank}

**Prove:** read that rank's log, or run py-spy dump --pid PID on it while it hangs

**Fix:** Make every rank call the same collectives in the same order.

**Source:** read: ProcessGroupGloo.cpp monitoredBarrier
"""

from __future__ import annotations

from fullmesh.causes.logs import LogCause, Pattern

CAUSE = LogCause(
    "LG-318",
    __doc__,
    examples=("RuntimeError: [Rank 0]: Rank 1 failed to pass monitoredBarrier in 30000 ms",),
    patterns=(
        Pattern(
            "failed to pass monitoredBarrier",
            r"Ranks? (?P<rank>[\d, ]{1,80}) failed to pass monitoredBarrier",
        ),
    ),
    key=("rank",),
    weight=64,
)
