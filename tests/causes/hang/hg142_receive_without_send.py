"""Cases of HG-142."""

from __future__ import annotations

from hang_records import TRAIN, receives

from causes.job_faults import make_known_fault

JOBS = {
    "recv": [("HG-142", (0,), f"{TRAIN}:12")],
}
JOB_CHANGES = {
    "NCCL: a receive without a send": (["HG-142"], "network", receives),
}
JOB_FAULTS = (make_known_fault("recv", "a receive without a send", "HG-142", (0,), "dist.recv"),)
