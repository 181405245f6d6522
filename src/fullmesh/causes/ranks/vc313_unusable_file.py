"""The account of jobs may not use a file that every job needs

Python of jobs, `/etc/fullmesh/env`, `/etc/hosts` or `/etc/resolv.conf` is closed to the account of jobs: the file, or a
folder above it, has a mode, an owner or a mount option that keeps the account out. Programs that root starts work.

Fullmesh starts a login of the account: `launchers_job_user`, else `User=` of `fullmesh-job@`. Without a name it uses
`nobody`, which has the rights that every account has.

**Prove:** su -s /bin/sh ACCOUNT -c 'namei -l PATH; cat PATH >/dev/null'

**Fix:** Open the folder or file that the message names (chmod o+rX).

**Source:** path_resolution(7)
"""

from __future__ import annotations

from fullmesh.causes.engine import Cause, CauseCase, Explains
from fullmesh.causes.relations import has_same_node

CAUSE = Cause(
    "VC-313",
    __doc__,
    weight=300,
    explains=(Explains(("VC-302", "VC-305", "VC-310", "VC-317", "VC-322"), has_same_node),),
    cases=(CauseCase("job-python-closed", "chmod 700 /opt/fullmesh"),),
)
