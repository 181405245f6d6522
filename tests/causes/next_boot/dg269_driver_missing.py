"""Cases of DG-269."""

from __future__ import annotations

from boot_changes import kernel
from records import UBUNTU1 as UB

from causes.changes import Change

CHANGES = {
    "no driver for the next kernel": Change(UB, kernel(next="6.8.0-50-generic", driver_next=False)),
}
