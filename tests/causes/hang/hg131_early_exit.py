"""Cases of HG-131."""

from __future__ import annotations

from hang_jobs import MAIN

from causes.job_faults import LOGGER, JobFault, make_known_fault

JOBS = {
    "exited": [("HG-131", (1,), "")],
    "finished": [("HG-131", (1,), "")],
}
LAB_JOBS = {
    "exited": ("HG-131", (1,), "has come to the end of the program", "torchrun"),
}
JOB_FAULTS = (
    JobFault(
        "exited",
        "uneven data: one rank is done early and exits, a thread keeps the other",
        MAIN
        + f"if rank == 0:\n    {LOGGER}"
        + "for step in range(9 if rank == 0 else 7):\n    dist.all_reduce(grads)\n"
        # without it torch itself may abort at its end (`terminate called without an active exception`)
        + "dist.destroy_process_group()\n",
        "HG-131",
        (1,),
        record=True,
    ),
    make_known_fault(
        "finished", "uneven data: one rank is done early, a thread keeps it", "HG-131", (1,)
    ),
)
