"""Cases of HG-106."""

from __future__ import annotations

from hang_records import native

from causes.job_faults import HEALTHY, JobFault

JOBS = {
    "late_stopped": [("HG-106", (1,), "")],
}
JOB_CHANGES = {
    "a rank is traced": (["HG-106"], "late_data", native(1, state="t")),
}
JOB_FAULTS = (
    JobFault("stopped", "SIGSTOP for one rank", HEALTHY, "HG-106", (1,), breaks="kill -STOP $PID"),
)
