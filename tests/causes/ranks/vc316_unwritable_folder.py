"""Cases of VC-316."""

from __future__ import annotations

from causes.changes import fail_job_start
from causes.faults import TUNED, VICTIM, Fault, make_step, set_mode

SHARED = "/dev/shm"  # noqa: S108 (a name on nodes)
VERIFICATION = {
    "shared memory closed": fail_job_start(("write", SHARED, "EACCES")),
    "temporary folder missing": fail_job_start(
        ("write", "/scratch/tmp", "ENOENT", "/etc/profile.d/x.sh:1")
    ),
}
FAULTS = (
    Fault("job-shm-closed", TUNED, set_mode(SHARED, "755")),
    Fault(
        "job-shm-closed",
        TUNED,
        make_step(VICTIM, "mount -t tmpfs -o ro fault /tmp", "umount /tmp"),
        variant="read-only",
        expect={"cause": "EROFS"},
    ),
)
