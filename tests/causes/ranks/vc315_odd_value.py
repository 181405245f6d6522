"""Cases of VC-315."""

from __future__ import annotations

from causes.changes import started
from causes.faults import TUNED, Fault, edited

VERIFICATION = {
    "windows line ends": started(
        ("value", "NNODES", "ends with a carriage return", "/etc/fullmesh/env:4"),
        ("value", "MASTER_PORT", "ends with a carriage return", "/etc/fullmesh/env:6"),
    ),
    "quote left open": started(
        ("source", "/etc/fullmesh/env", "Syntax error: Unterminated quoted string")
    ),
}
CRLF = r"sed -i 's/$/\r/' /etc/fullmesh/env"
FAULTS = (
    Fault("job-env-crlf", TUNED, edited("/etc/fullmesh/env", CRLF)),
    Fault(
        "job-env-crlf",
        TUNED,
        edited("/etc/fullmesh/env", "echo 'NCCL_ALGO=\"Ring' >> /etc/fullmesh/env"),
        variant="quote",
    ),
)
