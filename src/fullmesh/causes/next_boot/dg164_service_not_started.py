"""a service that the node needs will not start at the next boot (warning)

A service that was started by hand, or whose link somebody took away, is not there after a reboot: no ssh, no address,
a clock that drifts, GPUs without their fabric.

**Prove:** systemctl list-unit-files --state=disabled,masked; systemctl is-active NAME

**Fix:** systemctl enable NAME; systemctl unmask NAME before where it is masked.

**Source:** systemctl(1), is-enabled
"""

from __future__ import annotations

from fullmesh.causes.engine import Cause, CauseCase
from fullmesh.result.findings import WARNING

CAUSE = Cause(
    "DG-164",
    __doc__,
    severity=WARNING,
    weight=90,
    cases=(CauseCase("boot-unit", "systemctl disable of the clock's daemon"),),
)
