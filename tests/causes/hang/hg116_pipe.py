"""Cases of HG-116."""

from __future__ import annotations

from hang_jobs import MAIN
from hang_records import waits

from causes.job_faults import JobFault

JOB_CHANGES = {
    "a FIFO that no process opens": (
        ["HG-116"],
        "late_data",
        waits(
            "openat",
            "fifo",
            "another process to open the FIFO /data/batches for writing, which it opens for reading",
        ),
    ),
}
JOB_FAULTS = (
    JobFault(
        "fifo",
        "a FIFO that no process opens",
        MAIN
        + """\
if rank == 1:
    os.path.exists('/srv/jobs/state/fifo') or os.mkfifo('/srv/jobs/state/fifo')
go()
if rank == 1:
    open('/srv/jobs/state/fifo')
dist.all_reduce(grads)
""",
        "HG-116",
        (1,),
        "open('/srv/jobs/state/fifo')",
        expected=("another process to open the FIFO",),
    ),
)
