"""Cases of HG-122."""

from __future__ import annotations

from hang_records import TRAIN

from causes.job_faults import make_known_fault

JOBS = {
    "sizes": [("HG-122", (0, 1), f"{TRAIN}:11")],
}
JOB_FAULTS = (
    make_known_fault("sizes", "tensors of 8 and 6 numbers", "HG-122", (0, 1), "8 if rank"),
)
