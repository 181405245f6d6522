"""Cases of VC-313."""

from __future__ import annotations

from causes.changes import started
from causes.faults import BARE, TUNED, Fault, closed
from fullmesh.result.findings import WARNING

VERIFICATION = {
    "python closed to the account": started(
        ("use", "/opt/fullmesh/venv/bin/python", "/opt/fullmesh", "mode 0700, owner 0, group 0")
    ),
    "names closed to the account": started(
        ("use", "/etc/hosts", "/etc/hosts", "mode 0600, owner 0, group 0")
    ),
}
FAULTS = (
    Fault("job-python-closed", TUNED, closed("/opt/fullmesh", "700")),
    Fault("job-python-closed", TUNED, closed("/etc/fullmesh/env", "600"), variant="env"),
    Fault(
        "job-python-closed",
        TUNED,
        closed("/usr/bin/id", "700"),
        variant="program",
        expect={"cause": "/usr/bin/id"},
    ),
    Fault(
        "job-python-closed", BARE, closed("/etc/hosts", "600"), variant="hosts", severity=WARNING
    ),
)
