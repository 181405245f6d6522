"""Cases of VC-315."""

from __future__ import annotations

from causes.changes import fail_job_start
from causes.faults import TUNED, Fault, edit_file

VERIFICATION = {
    "windows line ends": fail_job_start(
        ("value", "NNODES", "ends with a carriage return", "/etc/fullmesh/env:4"),
        ("value", "MASTER_PORT", "ends with a carriage return", "/etc/fullmesh/env:6"),
    ),
    "quote left open": fail_job_start(
        ("source", "/etc/fullmesh/env", "Syntax error: Unterminated quoted string")
    ),
}
CRLF = r"sed -i 's/$/\r/' /etc/fullmesh/env"
FAULTS = (
    Fault("job-env-crlf", TUNED, edit_file("/etc/fullmesh/env", CRLF)),
    Fault(
        "job-env-crlf",
        TUNED,
        edit_file("/etc/fullmesh/env", "echo 'NCCL_ALGO=\"Ring' >> /etc/fullmesh/env"),
        variant="quote",
    ),
)
