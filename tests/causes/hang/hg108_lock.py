"""Cases of HG-108."""

from __future__ import annotations

from hang_records import TRAIN

from causes.job_faults import make_known_fault

JOBS = {
    "late_lock": [("HG-108", (1,), f"{TRAIN}:25")],
    "late_event": [("HG-108", (1,), f"{TRAIN}:17")],
}
JOB_FAULTS = (
    make_known_fault(
        "late_lock", "two threads take two locks in opposite order", "HG-108", (1,), "1|with files"
    ),
    make_known_fault(
        "late_event", "a thread that never says that it is done", "HG-108", (1,), "done.wait()"
    ),
)
