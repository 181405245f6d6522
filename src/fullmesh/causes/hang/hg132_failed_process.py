"""A rank's process was ended by a signal or an error

A process killed by a signal prints no error. The kernel sends SIGKILL if memory runs out. A library
aborts with SIGABRT. SIGSEGV and SIGBUS come from defects, or from a full /dev/shm.

**Prove:** journalctl -k | grep -i -E 'oom|killed' || coredumpctl list

**Fix:** Reduce the memory that each rank uses, or fix the error in the rank's own output.

**Source:** recorded from Gloo jobs with torch 2.13
"""

from __future__ import annotations

import signal
from collections.abc import Iterator

from fullmesh.causes.engine import Explains
from fullmesh.causes.hang.common import is_waiting_for
from fullmesh.causes.hang.ended import find_failed_processes
from fullmesh.causes.hang.job import HangCause, HangFinding, ObservedJob


def find_failed_ranks(job: ObservedJob) -> Iterator[HangFinding]:
    """Find ranks whose process ended by a signal or with an error of its own."""
    return find_failed_processes(job, CAUSE, lambda code: code != -signal.SIGTERM)


CAUSE = HangCause(
    "HG-132",
    __doc__,
    find=find_failed_ranks,
    weight=85,
    explains=(
        Explains(("HG-134", "HG-135", "HG-164")),
        Explains(("HG-141", "HG-142", "HG-161"), is_waiting_for),
    ),
)
