"""Cases of EF-101."""

from __future__ import annotations

from records import UBUNTU1 as UB

from causes.changes import Change, add_efa

CHANGES = {
    "efa driver": Change(UB, add_efa(pci=[{"slot": "0000:00:06.0", "driver": ""}])),
}
