"""Cases of HG-104."""

from __future__ import annotations

from hang_records import TRAIN

from causes.job_faults import make_known_fault

JOBS = {
    "late_loader": [("HG-104", (1,), f"{TRAIN}:13")],
}
JOB_FAULTS = (
    make_known_fault(
        "late_loader", "a worker of the DataLoader stands", "HG-104", (1,), "for batch in"
    ),
)
