"""Cases of DG-267."""

from __future__ import annotations

from boot_changes import line
from records import UBUNTU1 as UB

from causes.changes import Change
from causes.faults import TUNED, Fault, edit_file

CHANGES = {
    "a disk that is not there": Change(UB, line("/data", waits=True, there=False)),
}
FAULTS = (
    Fault(
        "boot-fstab",
        TUNED,
        edit_file(
            "/etc/fstab", "echo /dev/disk/by-label/data /data xfs defaults 0 2 >> /etc/fstab"
        ),
    ),
)
