"""Cases of HG-101."""

from __future__ import annotations

from causes.job_faults import FSDP, ONE_LINE, JobFault, make_known_fault

JOBS = {
    "late_data": [("HG-101", (1,), "/home/user/data.py:20")],
}
JOB_FAULTS = (
    make_known_fault(
        "late_data",
        "the data set computes for ever",
        "HG-101",
        (1,),
        "hashlib.sha256",
        file="data.py",
        files={"data.py": ONE_LINE},
    ),
    JobFault(
        "fsdp", "FSDP2: one rank's input never ends", FSDP, "HG-101", (1,), "sum(range(100000))"
    ),
)
