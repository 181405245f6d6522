"""Cases of DG-168."""

from __future__ import annotations

from boot_changes import selinux, set_boot_part
from records import UBUNTU1 as UB

from causes.changes import Change, combine

CHANGES = {
    "setenforce 0": Change(
        UB, combine(selinux("permissive"), set_boot_part("selinux_kept", "enforcing"))
    ),
}
