"""Cases of HG-121."""

from __future__ import annotations

from hang_records import TRAIN

from causes.job_faults import make_known_fault

JOBS = {
    "kinds": [("HG-121", (0, 1), f"{TRAIN}:12")],
    "kinds_four": [("HG-121", (3,), f"{TRAIN}:12")],
    "gpu_different": [("HG-121", (0, 1), f"{TRAIN}:23")],
}
JOB_FAULTS = (
    make_known_fault(
        "kinds",
        "one rank broadcasts, the other is at a barrier",
        "HG-121",
        (0, 1),
        "dist.broadcast",
    ),
    make_known_fault(
        "kinds_four",
        "one of four ranks gathers before all others reduce",
        "HG-121",
        (3,),
        "all_gather",
    ),
)
