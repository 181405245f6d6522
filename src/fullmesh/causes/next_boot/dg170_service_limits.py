"""limits of services, or a unit's file, differ from what runs (warning)

systemd reads its own configuration when it starts (or daemon-reexec), and a unit's file at daemon-reload: until then
services run with the limits of before, after the next boot with others.

**Prove:** systemctl show -p DefaultLimitMEMLOCK -p DefaultLimitNOFILE; systemd-analyze cat-config
systemd/system.conf; systemctl show UNIT -p NeedDaemonReload

**Fix:** systemctl daemon-reexec (daemon-reload for a unit), then restart what needs it.

**Source:** systemd-system.conf(5)
"""

from __future__ import annotations

from fullmesh.causes.engine import RECORDED, Cause, CauseCase
from fullmesh.result.findings import WARNING

CAUSE = Cause(
    "DG-170",
    __doc__,
    severity=WARNING,
    weight=10,
    cases=(CauseCase("boot-limits", "DefaultLimitMEMLOCK in a new file", by=RECORDED),),
)
