"""the next boot waits for a mount that is not there (warning)

Without nofail the boot waits 90 s for the disk or server and then stops in the emergency shell, before ssh: the node
is gone until somebody comes to its console.

**Prove:** findmnt --verify; findmnt --fstab -n -o TARGET | while read point; do mountpoint $point; done

**Fix:** Mount it, take the line out, or add nofail to its options.

**Source:** systemd.mount(5), nofail
"""

from __future__ import annotations

from fullmesh.causes.engine import Cause, CauseCase
from fullmesh.result.findings import WARNING

CAUSE = Cause(
    "DG-267",
    __doc__,
    severity=WARNING,
    weight=40,
    cases=(CauseCase("boot-fstab", "a line of fstab without nofail for a disk that is not there"),),
)
