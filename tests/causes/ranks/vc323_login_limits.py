"""Cases of VC-323."""

from __future__ import annotations

from causes.changes import fail_job_start
from causes.faults import TUNED, Fault, edit_file

PROFILE = "/etc/profile.d/fault.sh"
VERIFICATION = {
    "address space": fail_job_start(("limit", "AS", "307200000")),
    "umask": fail_job_start(("limit", "umask", "0777")),
}
LIMITS = "/etc/security/limits.d/90-fault.conf"
FAULTS = (
    Fault("job-ulimit", TUNED, edit_file(PROFILE, f"echo 'ulimit -v 300000' > {PROFILE}")),
    Fault(
        "job-ulimit",
        TUNED,
        edit_file(LIMITS, f"echo '* hard nofile 64' > {LIMITS}"),
        variant="pam",
        expect={"cause": "NOFILE 64"},
    ),
)
