"""Cases of HG-119."""

from __future__ import annotations

from hang_jobs import MAIN
from hang_records import used_cpu, waits

from causes.job_faults import JobFault

JOB_CHANGES = {
    "a message queue into which nothing is written": (
        ["HG-119"],
        "late_data",
        waits(
            "mq_timedreceive",
            "queue",
            "a message in queue /batches, which no other process has open",
        ),
    ),
    "a rank that computed nothing between two looks": (["HG-119"], "late_data", used_cpu(0.0)),
}
JOB_FAULTS = (
    JobFault(
        "queue",
        "a message queue into which nothing is written",
        MAIN
        + """\
if rank == 1:
    import ctypes
    libc = ctypes.CDLL(None)
    queue = libc.msgget(0, 0o1600)
    buffer = ctypes.create_string_buffer(99)
go()
if rank == 1:
    libc.msgrcv(queue, buffer, ctypes.c_size_t(9), ctypes.c_long(0), 0)
dist.all_reduce(grads)
""",
        "HG-119",
        (1,),
        "libc.msgrcv(queue, buffer, ctypes.c_size_t(9), ctypes.c_long(0), 0)",
        expected=("a message in the System V queue",),
    ),
)
