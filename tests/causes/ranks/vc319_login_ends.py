"""Cases of VC-319."""

from __future__ import annotations

from causes.changes import started
from causes.faults import TUNED, Fault, login_variable

VERIFICATION = {
    "profile ends the shell": started(("login", "/bin/bash", "exit status 1")),
    "python elsewhere": started(
        ("python", "/opt/fullmesh/venv/bin/python", "PYTHONHOME=/opt/nosuch", "/etc/environment:2")
    ),
}
FAULTS = (Fault("job-python-home", TUNED, login_variable("PYTHONHOME=/opt/nosuch")),)
