"""Cases of VC-319."""

from __future__ import annotations

from causes.changes import fail_job_start
from causes.faults import TUNED, Fault, job_account, set_login_variable

VERIFICATION = {
    "profile ends the shell": fail_job_start(("login", "/bin/bash", "exit status 1")),
    "python elsewhere": fail_job_start(
        ("python", "/opt/fullmesh/venv/bin/python", "PYTHONHOME=/opt/nosuch", "/etc/environment:2")
    ),
}
FAULTS = (
    Fault("job-python-home", TUNED, set_login_variable("PYTHONHOME=/opt/nosuch")),
    *(
        Fault("job-python-home", TUNED, job_account(do), variant=variant, expect={"cause": cause})
        for do, variant, cause in (
            ("echo 'exit 3' > /home/trainer/.bash_profile", "profile", "exit status 3"),
            ("chage -E 1 trainer", "expired", "expired"),
        )
    ),
)
