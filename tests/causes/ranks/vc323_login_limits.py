"""Cases of VC-323."""

from __future__ import annotations

from causes.changes import started
from causes.faults import TUNED, Fault, edited

PROFILE = "/etc/profile.d/fault.sh"
VERIFICATION = {
    "address space": started(("limit", "AS", "307200000")),
    "umask": started(("limit", "umask", "0777")),
}
LIMITS = "/etc/security/limits.d/90-fault.conf"
FAULTS = (
    Fault("job-ulimit", TUNED, edited(PROFILE, f"echo 'ulimit -v 300000' > {PROFILE}")),
    Fault(
        "job-ulimit",
        TUNED,
        edited(LIMITS, f"echo '* hard nofile 64' > {LIMITS}"),
        variant="pam",
        expect={"cause": "NOFILE 64"},
    ),
)
