"""SELinux denied something to a job

SELinux in enforcing mode denied a system call of a job's process; the job only sees 'Permission denied'.

**Prove:** ausearch -m avc -ts recent

**Fix:** Make a policy of it (audit2allow), or see role selinux_mode.
"""

from __future__ import annotations

from fullmesh.causes.engine import RECORDED, Cause, CauseCase

CAUSE = Cause(
    "DG-151",
    __doc__,
    weight=110,
    cases=(CauseCase("selinux", "avc: denied in the audit log, of a job's command", by=RECORDED),),
)
