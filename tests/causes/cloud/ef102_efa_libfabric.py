"""Cases of EF-102."""

from __future__ import annotations

from records import UBUNTU1 as UB

from causes.changes import Change, add_efa

CHANGES = {
    "efa libfabric": Change(UB, add_efa(libfabric={})),
}
