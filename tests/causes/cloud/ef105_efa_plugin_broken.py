"""Cases of EF-105."""

from __future__ import annotations

from records import UBUNTU1 as UB

from causes.changes import Change, add_efa

CHANGES = {
    "efa plugin broken": Change(
        UB, add_efa(plugin={"path": "/x.so", "elsewhere": "", "error": "undefined symbol"})
    ),
}
