"""A rank has not entered a collective: it waits for a lock file that another process holds or left

torch creates a lock file before it compiles an extension (DeepSpeed's, or one of your own with
load()). Other processes wait silently, without a timeout, until the file is gone. If the compiling
process is killed, the file stays, and every later start waits forever.

**Prove:** ls -l --time-style=+%T ~/.cache/torch_extensions/*/*/lock && pgrep -a
'ninja|nvcc|cc1plus'

**Fix:** Remove the lock if no compiler runs. On folders that nodes share, compile once before the
job starts.

**Source:** recorded from Gloo jobs with torch 2.13
"""

from __future__ import annotations

from collections.abc import Iterator

from fullmesh.causes.engine import Explains
from fullmesh.causes.hang.common import has_other_ranks, is_waiting_for
from fullmesh.causes.hang.job import HangCause, HangFinding, ObservedJob
from fullmesh.causes.hang.late import LateMessage, find_late_ranks
from fullmesh.causes.hang.places import ActivityKind


def find_lock_file_waits(job: ObservedJob) -> Iterator[HangFinding]:
    """Find late ranks that wait for a lock file."""
    return find_late_ranks(
        job,
        CAUSE,
        ActivityKind.FILE_LOCK,
        LateMessage(
            "waits for a lock file to go away{at}",
            "wait for a lock file to go away{at}",
            "the compilation or download that holds it ends",
            "on {host}: find ~/.cache /tmp -name lock -mmin +5 (torch's own are below "
            "TORCH_EXTENSIONS_DIR, ~/.cache/torch_extensions). If no compiler runs, remove it: a killed start left it",
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
