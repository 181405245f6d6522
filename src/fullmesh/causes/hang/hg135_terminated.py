"""A rank was ended by SIGTERM, as a launcher does when another one has failed

torchrun, srun and mpirun send SIGTERM to all other ranks after one has failed, and schedulers at
the end of the time limit. This is the main finding only if no rank is known to have ended before.

**Prove:** read the launcher's own output (Slurm: sacct -j JOB)

**Fix:** Find the rank that ended first, and fix its error.

**Source:** a recorded Gloo job in which one value was changed, because no test machine shows this state
"""

from __future__ import annotations

import signal
from collections.abc import Iterator

from fullmesh.causes.engine import Explains
from fullmesh.causes.hang.ended import find_failed_processes
from fullmesh.causes.hang.job import HangCause, HangFinding, ObservedJob


def find_terminated_ranks(job: ObservedJob) -> Iterator[HangFinding]:
    """Find ranks that SIGTERM ended."""
    return find_failed_processes(job, CAUSE, lambda code: code == -signal.SIGTERM)


CAUSE = HangCause(
    "HG-135",
    __doc__,
    find=find_terminated_ranks,
    weight=80,
    explains=(Explains(("HG-134",)),),
    is_certain=False,
)
