"""Cases of HG-115."""

from __future__ import annotations

from hang_jobs import MAIN
from hang_records import waits

from causes.job_faults import STATE, JobFault

JOB_CHANGES = {
    "a file lock of another process": (
        ["HG-115"],
        "late_data",
        waits(
            "flock",
            "lock",
            "a file lock on /data/cache.lock, held by process 812 (prepare.py, stopped)",
        ),
    ),
}
JOB_FAULTS = (
    JobFault(
        "held_lock",
        "a file lock of another process",
        MAIN
        + """\
if rank == 1:
    import fcntl
    lock = open('/srv/jobs/state/lock', "w")
go()
if rank == 1:
    fcntl.flock(lock, fcntl.LOCK_EX)
dist.all_reduce(grads)
""",
        "HG-115",
        (1,),
        "fcntl.flock(lock, fcntl.LOCK_EX)",
        breaks=f"runuser -u trainer -- setsid flock {STATE}/lock sleep 900 >/dev/null 2>&1 </dev/null & "
        "sleep 1",
        expected=("a file lock on", "held by process", "sleep 900"),
    ),
)
