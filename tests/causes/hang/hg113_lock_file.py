"""Cases of HG-113."""

from __future__ import annotations

from hang_records import TRAIN

from causes.job_faults import make_known_fault

JOBS = {
    "late_lock_file": [("HG-113", (1,), f"{TRAIN}:18")],
}
JOB_FAULTS = (
    make_known_fault(
        "late_lock_file",
        "a lock file of a compilation that nobody takes away",
        "HG-113",
        (1,),
        "baton.wait()",
    ),
)
