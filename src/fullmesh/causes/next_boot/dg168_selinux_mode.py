"""SELinux will be in another mode after the next boot (warning)

setenforce changes what runs, /etc/selinux/config what boots. A node that works since setenforce 0 is enforcing again
after the next boot; one that was made enforcing by hand is not.

**Prove:** getenforce; grep ^SELINUX= /etc/selinux/config

**Fix:** Say in the file what is meant, and solve the denials: ausearch -m avc; role selinux_mode.

**Source:** setenforce(8)
"""

from __future__ import annotations

from fullmesh.causes.engine import RECORDED, Cause, CauseCase
from fullmesh.result.findings import WARNING

CAUSE = Cause(
    "DG-168",
    __doc__,
    severity=WARNING,
    weight=30,
    cases=(CauseCase("boot-selinux", "setenforce 0 under SELINUX=enforcing", by=RECORDED),),
)
