"""Cases of HG-133."""

from __future__ import annotations

from hang_records import TRAIN

from causes.job_faults import make_known_fault

JOBS = {
    "raised": [("HG-133", (1,), f"{TRAIN}:16")],
}
JOB_FAULTS = (
    make_known_fault(
        "raised", "an exception on one rank, a thread keeps it", "HG-133", (1,), "raise ValueError"
    ),
)
