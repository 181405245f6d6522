"""Cases of HG-132."""

from __future__ import annotations

from hang_jobs import MAIN
from hang_records import launched, remove_rank

from causes.job_faults import LOGGER, MAKE_GROUPS, MEMORY, REMOVE_GROUPS, JobFault

JOBS = {
    "killed": [("HG-132", (1,), "")],
    "aborted": [("HG-132", (0,), "")],
    "gpu_killed": [("HG-132", (1,), "")],
}
JOB_CHANGES = {
    "a launcher ends the others": (["HG-132"], "aborted", launched),
    "a rank has gone, nobody knows how": (["HG-132"], "killed", remove_rank(1, exit_code=None)),
}
LAB_JOBS = {
    "oom": (
        "HG-132",
        (1,),
        "been killed by the kernel because memory ran out",
        "Killed process",
    ),
}
JOB_FAULTS = (
    JobFault(
        "oom",
        "a control group whose memory one rank fills: the kernel kills it",
        MAIN.replace('"gloo"', '"gloo", timeout=datetime.timedelta(seconds=100)')
        + LOGGER
        + "go()\nif rank == 1:\n    kept = [bytearray(1 << 20) for _ in range(4000)]\ndist.all_reduce(grads)\n",
        "HG-132",
        (1,),
        prepares=MAKE_GROUPS,
        breaks=f"cd {MEMORY}/fullmesh-hang; echo $PID > cgroup.procs; echo 300M > memory.limit_in_bytes",
        undo=REMOVE_GROUPS,
        expected=("memory ran out", "Killed process"),
        record=True,
    ),
)
