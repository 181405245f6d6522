"""Cases of DG-168."""

from __future__ import annotations

from boot_changes import kept, selinux
from records import UBUNTU1 as UB

from causes.changes import Change, combine

CHANGES = {
    "setenforce 0": Change(UB, combine(selinux("permissive"), kept("selinux_kept", "enforcing"))),
}
