"""Gloo: a rank's number is not below the number of ranks

RANK is {number} and WORLD_SIZE is {size}: ranks count from 0 to WORLD_SIZE-1.

**Place:** the node of this log: its RANK, node rank or WORLD_SIZE

**Prove:** on that node, in the shell that starts the job: env | grep -E 'RANK|WORLD_SIZE'

**Fix:** Start the job with fullmesh-torchrun on every node, or give every process its own RANK.

**Source:** recorded: RANK=2 with WORLD_SIZE=2, gloo/context.cc
"""

from __future__ import annotations

from fullmesh.causes.engine import Explains
from fullmesh.causes.logs import LogCause, Pattern

CAUSE = LogCause(
    "LG-116",
    __doc__,
    examples=("RuntimeError: [enforce fail at .../gloo/context.cc:23] rank < size. 2 vs 2",),
    patterns=(Pattern("rank < size.", r"rank < size\. (?P<number>\d{1,7}) vs (?P<size>\d{1,7})"),),
    explains=(Explains(("LG-210",)),),
    weight=89,
)
