"""Cases of HG-103."""

from __future__ import annotations

from hang_records import TRAIN

from causes.job_faults import make_known_fault

JOBS = {
    "late_save": [("HG-103", (0,), f"{TRAIN}:15")],
}
JOB_FAULTS = (
    make_known_fault(
        "late_save", "a checkpoint whose disk takes nothing more", "HG-103", (0,), "torch.save("
    ),
)
