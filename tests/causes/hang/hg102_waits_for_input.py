"""Cases of HG-102."""

from __future__ import annotations

from hang_records import TRAIN, UNASKED, remove_rank

from causes.job_faults import make_known_fault

JOBS = {
    "late_input": [("HG-102", (1,), f"{TRAIN}:15")],
    "late_pdb": [("HG-102", (1,), f"{TRAIN}:15")],
    "late_two_causes": [("HG-102", (3,), f"{TRAIN}:18"), ("HG-107", (1,), f"{TRAIN}:16")],
}
JOB_CHANGES = {
    "one that is not asked and one that sleeps": (
        ["HG-102", "HG-151"],
        "late_two_causes",
        remove_rank(1, **UNASKED),
    ),
}
JOB_FAULTS = (
    make_known_fault("late_input", "input() on one rank", "HG-102", (1,), "input("),
    make_known_fault("late_pdb", "breakpoint() on one rank", "HG-102", (1,), "breakpoint()"),
    make_known_fault(
        "late_two_causes",
        "one rank sleeps, another reads its terminal",
        "HG-102",
        (3,),
        "input()",
        also=("HG-107",),
    ),
)
