"""A limit of a login is too small for a job

PAM (`/etc/security/limits.d`), a profile file (`ulimit`, `umask`) or sshd sets a limit that no job can run with: open
files, threads, address space, file size, CPU time or stack. `RLIMIT_AS` is the name of `ulimit -v`.

**Prove:** su -l ACCOUNT -c 'ulimit -a; umask'

**Fix:** Remove the limit where it is set, then log in again.

**Source:** getrlimit(2), limits.conf(5)
"""

from __future__ import annotations

from fullmesh.causes.engine import Cause, CauseCase

CAUSE = Cause(
    "VC-323",
    __doc__,
    weight=285,
    cases=(CauseCase("job-ulimit", "ulimit -v 300000 in a profile file"),),
)
