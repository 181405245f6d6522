"""NCCL: ranks disagree on the world size

The ranks have different world sizes ({detail}). The job then hangs.

**Place:** the node whose WORLD_SIZE differs

**Prove:** on all nodes: env | grep -E '^(WORLD_SIZE|NNODES)'

**Fix:** Use one environment for all nodes: ./fullmesh apply -i INVENTORY --tags launch.

**Source:** read: nccl bootstrap.cc:348
"""

from __future__ import annotations

from fullmesh.causes.engine import Explains
from fullmesh.causes.logs import LogCause, Pattern, RecordedLog

CAUSE = LogCause(
    "LG-408",
    __doc__,
    examples=(
        (
            "node1:1:2 [0] bootstrap.cc:335 NCCL WARN Bootstrap Root : mismatch in info from "
            "procs, nranks 4 vs 3"
        ),
    ),
    patterns=(
        Pattern("mismatch in info from procs", r"(?P<detail>mismatch in info from procs.{0,80})"),
        Pattern(
            "mismatch in rank count from procs",
            r"(?P<detail>mismatch in rank count from procs.{0,80})",
        ),
    ),
    explains=(Explains(("LG-409",)),),
    weight=91,
    recorded=(
        RecordedLog(
            "nccl world size",
            (
                "n:1:2 [0] bootstrap.cc:335 NCCL WARN Bootstrap Root : mismatch in rank count "
                "from procs 4 : 3"
            ),
        ),
    ),
)
