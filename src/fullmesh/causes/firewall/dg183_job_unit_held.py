"""the unit that jobs run in keeps them from their peers, or holds them to too little

A unit is a place of its own: systemd filters its packets (IPAddressDeny=, by BPF at its control group), takes its
network (PrivateNetwork=), forbids families of addresses and sets its limits. The probe runs outside of it and gets
through. systemctl show says what a job would get, with all drop-ins.

**Prove:** systemctl show fullmesh-job@x -p IPAddressDeny -p PrivateNetwork -p RestrictAddressFamilies -p LimitNOFILE

**Fix:** systemctl cat fullmesh-job@ shows who sets it; take it out, then systemctl daemon-reload.

**Source:** systemd.resource-control(5), systemd.exec(5)
"""

from __future__ import annotations

from fullmesh.causes.engine import Cause, CauseCase

CAUSE = Cause(
    "DG-183",
    __doc__,
    weight=270,
    cases=(CauseCase("job-unit", "IPAddressDeny=any in a drop-in of fullmesh-job@"),),
)
