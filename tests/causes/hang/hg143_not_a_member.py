"""Cases of HG-143."""

from __future__ import annotations

from hang_records import TRAIN

from causes.job_faults import make_known_fault

JOBS = {
    "not_in_group": [("HG-143", (1, 2), f"{TRAIN}:14")],
}
JOB_FAULTS = (
    make_known_fault(
        "not_in_group",
        "a broadcast from a rank outside of its group",
        "HG-143",
        (1, 2),
        "dist.broadcast",
    ),
)
