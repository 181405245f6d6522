"""Cases of EF-105."""

from __future__ import annotations

from records import UBUNTU1 as UB

from causes.changes import Change, efa

CHANGES = {
    "efa plugin broken": Change(
        UB, efa(plugin={"path": "/x.so", "elsewhere": "", "error": "undefined symbol"})
    ),
}
