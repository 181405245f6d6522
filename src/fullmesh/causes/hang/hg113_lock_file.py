"""a rank has not entered a collective: it waits for a lock file that another process holds or left

A file is the lock: torch makes one before it compiles an extension (DeepSpeed's parts, one's own
load()), and whoever comes later waits until it is gone, without a word and without an end. A start
that is killed meanwhile leaves it behind, and every later start waits for nobody.

**Prove:** ls -l --time-style=+%T ~/.cache/torch_extensions/*/*/lock; pgrep -a 'ninja|nvcc|cc1plus'

**Fix:** Remove the lock where nobody compiles; on folders that nodes share, compile once before the
job starts.

**Source:** recorded of Gloo jobs with torch 2.13
"""

from __future__ import annotations

from collections.abc import Iterator

from fullmesh.causes.engine import Explains
from fullmesh.causes.hang.common import has_other_ranks, is_waiting_for
from fullmesh.causes.hang.job import HangCause, HangFinding, ObservedJob
from fullmesh.causes.hang.late import LateMessage, find_late_ranks
from fullmesh.causes.hang.places import ActivityKind


def find_lock_file_waits(job: ObservedJob) -> Iterator[HangFinding]:
    """Every rank comes to the collective that the others are in."""
    return find_late_ranks(
        job,
        CAUSE,
        ActivityKind.FILE_LOCK,
        LateMessage(
            "waits for a lock file to go away{at}",
            "wait for a lock file to go away{at}",
            "who holds it lets go: a compilation or a download that ends",
            "on {host}: find ~/.cache /tmp -name lock -mmin +5 (torch's own lie below "
            "TORCH_EXTENSIONS_DIR, ~/.cache/torch_extensions); where no compiler runs a killed start "
            "left it: remove it",
        ),
    )


CAUSE = HangCause(
    "HG-113",
    __doc__,
    find=find_lock_file_waits,
    weight=62,
    explains=(
        Explains(("HG-161",), is_waiting_for),
        Explains(("HG-141", "HG-142"), has_other_ranks),
    ),
)
