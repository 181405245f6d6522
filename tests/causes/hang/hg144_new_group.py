"""Cases of HG-144."""

from __future__ import annotations

from hang_records import TRAIN

from causes.job_faults import make_known_fault

JOBS = {
    "new_group": [("HG-144", (1,), f"{TRAIN}:13")],
}
JOB_FAULTS = (
    make_known_fault(
        "new_group", "new_group on one rank alone", "HG-144", (1,), "1|dist.all_reduce"
    ),
)
