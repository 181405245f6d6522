"""Cases of VC-326."""

from __future__ import annotations

from causes.changes import fail_job_start
from causes.faults import TUNED, VICTIM, Fault, make_step
from fullmesh.result.findings import WARNING

PROFILE = "/etc/profile.d/slow.sh"
VERIFICATION = {
    "profile that waits": fail_job_start(
        ("slow", "sleep 90", "the login shell and Python", f"{PROFILE}:1")
    )
}
FAULTS = (
    Fault(
        "job-profile-slow",
        TUNED,
        make_step(VICTIM, f"echo 'sleep 90' > {PROFILE}", f"rm {PROFILE}"),
        severity=WARNING,
    ),
)
