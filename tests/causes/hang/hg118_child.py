"""Cases of HG-118."""

from __future__ import annotations

from hang_jobs import MAIN
from hang_records import waits

from causes.job_faults import JobFault

JOB_CHANGES = {
    "a child process that does not end": (
        ["HG-118"],
        "late_data",
        waits("wait4", "child", "its child process, that is process 812 (make, in wait4)"),
    ),
}
JOB_FAULTS = (
    JobFault(
        "child",
        "a child process that does not end",
        MAIN
        + """\
if rank == 1:
    import subprocess
    child = subprocess.Popen(["sleep", "900"])
go()
if rank == 1:
    child.wait()
dist.all_reduce(grads)
""",
        "HG-118",
        (1,),
        "child.wait()",
        expected=("its child process, that is process", "(sleep 900, in clock_nanosleep)"),
    ),
)
