"""Cases of HG-112."""

from __future__ import annotations

from hang_jobs import MAIN

from causes.job_faults import CPU, MAKE_GROUPS, REMOVE_GROUPS, JobFault

LAB_JOBS = {
    "throttled": (
        "HG-112",
        (1,),
        "gets no more than 0.1 CPUs from its cgroup at /srv/jobs/train.py:",
        "of the periods between two queries",
    ),
}
JOB_FAULTS = (
    JobFault(
        "throttled",
        "a control group that gives one rank a tenth of a processor",
        MAIN
        + "go()\n\n\ndef augment():\n    sum(number * number for number in range(1_000_000_000))\n\n\n"
        + "if rank == 1:\n    augment()\ndist.all_reduce(grads)\n",
        "HG-112",
        (1,),
        "number * number",
        prepares=MAKE_GROUPS,
        breaks=f"cd {CPU}/fullmesh-hang; echo 200000 > cpu.cfs_period_us; echo 20000 > cpu.cfs_quota_us; "
        "echo $PID > cgroup.procs",
        undo=REMOVE_GROUPS,
        expected=("0.1 CPUs", "held back"),
        record=True,
    ),
)
