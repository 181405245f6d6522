"""Cases of VC-326."""

from __future__ import annotations

from causes.changes import started
from causes.faults import TUNED, VICTIM, Fault, at
from fullmesh.result.findings import WARNING

PROFILE = "/etc/profile.d/slow.sh"
VERIFICATION = {
    "profile that waits": started(
        ("slow", "sleep 90", "the login shell and Python", f"{PROFILE}:1")
    )
}
FAULTS = (
    Fault(
        "job-profile-slow",
        TUNED,
        at(VICTIM, f"echo 'sleep 90' > {PROFILE}", f"rm {PROFILE}"),
        severity=WARNING,
    ),
)
