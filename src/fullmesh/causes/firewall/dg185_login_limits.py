"""a login of the account that runs jobs is held to too little

Jobs that are started by ssh (pdsh, mpirun, torchrun by hand) get what the node's PAM gives the account that logs in:
/etc/security/limits.conf, limits.d. The probe's own limits are others, as root's mostly are. As root the probe opens
one session of the account with su, without a profile, from the limits of sshd, and reads /proc/self/limits there; it
is said only where the probe itself is allowed enough.

**Prove:** su -s /bin/sh ACCOUNT -c 'ulimit -Sn; ulimit -l; ulimit -u'

**Fix:** A file in /etc/security/limits.d: 'ACCOUNT - nofile 1048576', 'ACCOUNT - memlock unlimited'; log in anew.

**Source:** pam_limits(8), limits.conf(5), getrlimit(2)
"""

from __future__ import annotations

from fullmesh.causes.engine import Cause, CauseCase

CAUSE = Cause(
    "DG-185",
    __doc__,
    weight=260,
    cases=(CauseCase("login-limits", "jobber - nproc 20 in /etc/security/limits.d"),),
)
