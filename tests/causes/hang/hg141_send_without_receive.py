"""Cases of HG-141."""

from __future__ import annotations

from hang_records import TRAIN, sends

from causes.job_faults import make_known_fault

JOBS = {
    "send": [("HG-141", (0,), f"{TRAIN}:12")],
}
JOB_CHANGES = {
    "NCCL: a send without a receive": (["HG-141"], "network", sends(False)),
}
JOB_FAULTS = (make_known_fault("send", "a send without a receive", "HG-141", (0,), "dist.send"),)
