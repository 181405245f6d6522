"""A login of the account of jobs ends before a job can start

The account does not exist, has expired or may not log in (PAM), a profile file ends the shell, or a variable of the
login (PYTHONHOME, LD_LIBRARY_PATH) keeps Python from starting. Jobs that ssh, pdsh or mpirun start fail.

**Prove:** su -l ACCOUNT -c 'VENV/bin/python -c ""'

**Fix:** Correct the file or the account that the message names.

**Source:** pam(8), Python's documentation of PYTHONHOME
"""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Iterator

from fullmesh.causes.engine import Cause, CauseCase
from fullmesh.observed.survey import NO_HOME, NO_LOGIN
from fullmesh.result.findings import Finding
from fullmesh.verify.job_start import get_job_start, list_failed_steps
from fullmesh.verify.model import ClusterObservations


def rule_login_ends(seen: ClusterObservations) -> Iterator[Finding]:
    """Check that a login of the account gets as far as Python."""
    found = list(list_failed_steps(seen, "login", "python"))
    starts = [get_job_start(seen, one) for one in seen.plan["nodes"]]
    holders = Counter(start["account"] for start in starts if start)
    lacking = Counter(
        (start["account"], error)
        for _, start, steps in found
        for error in {one["error"] for one in steps}
    )
    for name, start, steps in found:
        # alike on all nodes that have it, it is an account of a service, whose jobs systemd starts
        meant = [
            error
            for error in (NO_LOGIN, NO_HOME)
            if lacking[start["account"], error] == holders[start["account"]]
        ]
        first = next((one for one in steps if one["error"] not in meant), None)
        if first is None:
            continue
        account = shlex.quote(start["account"])
        where = f" (set in {first['source']})" if first["source"] else ""
        what = (
            f"Python of jobs does not start on {name} with {first['error'] or 'the environment of a login'}{where}"
            if first["step"] == "python"
            else f"a login of {start['account']} on {name} ends before a job can start: {first['error']}"
        )
        yield Finding(
            "VC-319",
            "L1",
            what,
            node=name,
            seen=f"{first['subject']}: {first['error']}",
            expected="a login that starts Python",
            check=f"on {name}: su -l {account} -c true; chage -l {account}",
            fix=f"on {name}: remove the variables from {first['source']}"
            if first["source"]
            else f"on {name}: correct the account or the profile file that ends its login",
        )


CAUSE = Cause(
    "VC-319",
    __doc__,
    find=rule_login_ends,
    weight=300,
    cases=(CauseCase("job-python-home", "PYTHONHOME=/opt/nosuch in /etc/environment"),),
)
