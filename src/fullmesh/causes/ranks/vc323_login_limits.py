"""A limit of a login is too small for a job

PAM (`/etc/security/limits.d`), a profile file (`ulimit`, `umask`) or sshd sets a limit that no job can run with: open
files, threads, address space, file size, CPU time or stack. `RLIMIT_AS` is the name of `ulimit -v`.

**Prove:** su -l ACCOUNT -c 'ulimit -a; umask'

**Fix:** Remove the limit where it is set, then log in again.

**Source:** getrlimit(2), limits.conf(5)
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator

from fullmesh.causes.engine import Cause, CauseCase
from fullmesh.result.findings import ERROR, WARNING, Finding, join_names
from fullmesh.verify.job_start import is_for_all_jobs, list_failed_steps
from fullmesh.verify.model import ClusterObservations


def rule_login_limits(seen: ClusterObservations) -> Iterator[Finding]:
    """Check that the limits in a login suffice for a small job."""
    for name, start, steps in list_failed_steps(seen, "limit"):
        words = join_names([f"{one['subject']} {one['error']}" for one in steps])
        yield Finding(
            "VC-323",
            "L1",
            f"a login of {start['account']} on {name} has limits that are too small for a job: {words}",
            node=name,
            seen=words,
            expected="the limits of the distribution",
            check=f"on {name}: su -l {shlex.quote(start['account'])} -c 'ulimit -a; umask'",
            fix=f"on {name}: remove the limit from /etc/security/limits.d or from a profile file (ulimit, umask)",
            severity=ERROR if is_for_all_jobs(seen, name, start) else WARNING,
        )


CAUSE = Cause(
    "VC-323",
    __doc__,
    find=rule_login_limits,
    weight=285,
    cases=(CauseCase("job-ulimit", "ulimit -v 300000 in a profile file"),),
)
