"""Cases of VC-316."""

from __future__ import annotations

from causes.changes import started
from causes.faults import TUNED, VICTIM, Fault, at, closed

SHARED = "/dev/shm"  # noqa: S108 (a name on nodes)
VERIFICATION = {
    "shared memory closed": started(("write", SHARED, "EACCES")),
    "temporary folder missing": started(
        ("write", "/scratch/tmp", "ENOENT", "/etc/profile.d/x.sh:1")
    ),
}
FAULTS = (
    Fault("job-shm-closed", TUNED, closed(SHARED, "755")),
    Fault(
        "job-shm-closed",
        TUNED,
        at(VICTIM, "mount -t tmpfs -o ro fault /tmp", "umount /tmp"),
        variant="read-only",
        expect={"cause": "EROFS"},
    ),
)
