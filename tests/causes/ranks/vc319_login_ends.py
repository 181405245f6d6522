"""Cases of VC-319."""

from __future__ import annotations

from causes.changes import started
from causes.faults import TUNED, Fault, job_account, login_variable

VERIFICATION = {
    "profile ends the shell": started(("login", "/bin/bash", "exit status 1")),
    "python elsewhere": started(
        ("python", "/opt/fullmesh/venv/bin/python", "PYTHONHOME=/opt/nosuch", "/etc/environment:2")
    ),
}
FAULTS = (
    Fault("job-python-home", TUNED, login_variable("PYTHONHOME=/opt/nosuch")),
    *(
        Fault("job-python-home", TUNED, job_account(do), variant=variant, expect={"cause": cause})
        for do, variant, cause in (
            ("echo 'exit 3' > /home/trainer/.bash_profile", "profile", "exit status 3"),
            ("chage -E 1 trainer", "expired", "expired"),
        )
    ),
)
