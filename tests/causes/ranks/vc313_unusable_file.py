"""Cases of VC-313."""

from __future__ import annotations

from causes.changes import fail_job_start
from causes.faults import BARE, TUNED, Fault, set_mode
from fullmesh.result.findings import WARNING

VERIFICATION = {
    "python closed to the account": fail_job_start(
        ("use", "/opt/fullmesh/venv/bin/python", "/opt/fullmesh", "mode 0700, owner 0, group 0")
    ),
    "names closed to the account": fail_job_start(
        ("use", "/etc/hosts", "/etc/hosts", "mode 0600, owner 0, group 0")
    ),
}
FAULTS = (
    Fault("job-python-closed", TUNED, set_mode("/opt/fullmesh", "700")),
    Fault("job-python-closed", TUNED, set_mode("/etc/fullmesh/env", "600"), variant="env"),
    Fault(
        "job-python-closed",
        TUNED,
        set_mode("/opt/fullmesh/venv/pyvenv.cfg", "600"),
        variant="venv",
        expect={"cause": "pyvenv.cfg"},
    ),
    Fault(
        "job-python-closed",
        TUNED,
        set_mode("/usr/bin/id", "700"),
        variant="program",
        expect={"cause": "/usr/bin/id"},
    ),
    Fault(
        "job-python-closed", BARE, set_mode("/etc/hosts", "600"), variant="hosts", severity=WARNING
    ),
)
