"""Cases of DG-167."""

from __future__ import annotations

from boot_changes import line, machine, mounted
from records import UBUNTU1 as UB

from causes.changes import Change, combine

CHANGES = {
    "a mount in no file": Change(UB, mounted("/data")),
    "a larger /dev/shm": Change(
        UB,
        machine(mounted("/dev/shm", "tmpfs", 1 << 36)),  # noqa: S108 (recorded)
    ),
    "a smaller one in fstab": Change(
        UB,
        machine(
            combine(
                mounted("/dev/shm", "tmpfs", 1 << 36),  # noqa: S108
                line("/dev/shm", waits=False, there=True, size=1 << 30),  # noqa: S108
            )
        ),
    ),
}
