"""Cases of HG-163."""

from __future__ import annotations

from causes.job_faults import known_fault

JOB_FAULTS = (
    known_fault(
        "slow",
        "one rank is always the last",
        "HG-163",
        (1,),
        "time.sleep(0.3",
        words=("--looks", "8"),
    ),
)
