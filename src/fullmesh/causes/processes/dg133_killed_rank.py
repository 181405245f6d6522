"""the kernel killed or stopped a job's process

A rank that dies between the store and the first collective leaves the others waiting for it; its own log may be
empty.

**Prove:** journalctl -k --since -30min

**Fix:** Give the job less memory per rank, or fix what crashed.

**Source:** measured with torch 2.13
"""

from __future__ import annotations

from fullmesh.causes.engine import RECORDED, Cause, CauseCase

CAUSE = Cause(
    "DG-133",
    __doc__,
    weight=120,
    cases=(
        CauseCase(
            "rank-killed",
            "the kernel log: out of memory, or segfault, of a python process",
            by=RECORDED,
        ),
    ),
)
