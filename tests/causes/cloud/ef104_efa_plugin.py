"""Cases of EF-104."""

from __future__ import annotations

from records import UBUNTU1 as UB

from causes.changes import Change, add_efa

CHANGES = {
    "efa plugin": Change(UB, add_efa(plugin={"path": "", "elsewhere": ""})),
}
