"""firewalld's runtime and permanent settings differ

firewalld has two sets of settings: what runs and what is kept. After a reload or a reboot the node behaves as what is
kept.

**Prove:** firewall-cmd --list-all-zones, --list-all-policies; the same with --permanent

**Fix:** firewall-cmd --reload to go back to what is kept, --runtime-to-permanent to keep what runs.

**Source:** firewall-cmd(1)
"""

from __future__ import annotations

from fullmesh.causes.engine import Cause, CauseCase, Explains
from fullmesh.causes.relations import SHUT, has_same_blocked_ports
from fullmesh.result.findings import WARNING

CAUSE = Cause(
    "DG-214",
    __doc__,
    severity=WARNING,
    weight=770,
    explains=(Explains((*SHUT, "DG-114", "DG-101", "DG-105", "DG-175"), has_same_blocked_ports),),
    cases=(
        CauseCase(
            "runtime-differs",
            "firewall-cmd --permanent ... without --reload, or the other way round, in a zone or policy in force",
            bare=False,
        ),
    ),
)
