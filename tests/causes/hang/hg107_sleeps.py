"""Cases of HG-107."""

from __future__ import annotations

from hang_records import TRAIN, asleep

from causes.job_faults import make_known_fault

JOBS = {
    "late_sleep": [("HG-107", (1,), f"{TRAIN}:15")],
    "late_four": [("HG-107", (2,), f"{TRAIN}:15")],
    "late_chain": [("HG-107", (3,), f"{TRAIN}:15")],
    "gpu_asleep": [("HG-107", (1,), f"{TRAIN}:36")],
    "gpu_both": [("HG-107", (1,), f"{TRAIN}:39")],
}
JOB_CHANGES = {
    "the receiver sleeps": (["HG-107"], "send", asleep),
}
JOB_FAULTS = (
    make_known_fault("late_sleep", "one rank sleeps", "HG-107", (1,), "time.sleep(1000)"),
    make_known_fault("late_four", "one of four ranks sleeps", "HG-107", (2,), "time.sleep(1000)"),
    make_known_fault(
        "late_chain",
        "one rank sleeps, the others wait in two groups",
        "HG-107",
        (3,),
        "time.sleep(1000)",
    ),
)
