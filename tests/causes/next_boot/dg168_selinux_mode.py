"""Cases of DG-168."""

from __future__ import annotations

from boot_changes import kept, selinux
from records import UBUNTU1 as UB

from causes.changes import Change, together

CHANGES = {
    "setenforce 0": Change(UB, together(selinux("permissive"), kept("selinux_kept", "enforcing"))),
}
