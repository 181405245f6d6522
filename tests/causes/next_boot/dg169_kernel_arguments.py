"""Cases of DG-169."""

from __future__ import annotations

from boot_changes import kernel
from records import UBUNTU1 as UB

from causes.changes import Change

CHANGES = {
    "an argument less": Change(UB, kernel(next_arguments=["ro"])),
    "an argument more": Change(UB, kernel(next_arguments=["ro", "iommu=pt", "net.ifnames=0"])),
}
