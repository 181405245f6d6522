"""Cases of VC-317."""

from __future__ import annotations

from records import EL1

from causes.changes import fail_job_start

VERIFICATION = {
    "name unknown to the account": fail_job_start(("resolve", EL1, "Name or service not known")),
}
