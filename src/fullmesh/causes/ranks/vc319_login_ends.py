"""A login of the account of jobs ends before a job can start

The account does not exist, has expired or may not log in (PAM), a profile file ends the shell, or a variable of the
login (PYTHONHOME, LD_LIBRARY_PATH) keeps Python from starting. Jobs that ssh, pdsh or mpirun start fail.

**Prove:** su -l ACCOUNT -c 'VENV/bin/python -c ""'

**Fix:** Correct the file or the account that the message names.

**Source:** pam(8), Python's documentation of PYTHONHOME
"""

from __future__ import annotations

from fullmesh.causes.engine import Cause, CauseCase

CAUSE = Cause(
    "VC-319",
    __doc__,
    weight=300,
    cases=(CauseCase("job-python-home", "PYTHONHOME=/opt/nosuch in /etc/environment"),),
)
