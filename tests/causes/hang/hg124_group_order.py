"""Cases of HG-124."""

from __future__ import annotations

from hang_records import TRAIN

from causes.job_faults import make_known_fault

JOBS = {
    "groups_crossed": [("HG-124", (0, 1), f"{TRAIN}:16")],
}
JOB_FAULTS = (
    make_known_fault(
        "groups_crossed", "two groups in opposite order", "HG-124", (0, 1), "1|group=rows"
    ),
)
