"""Cases of EF-106."""

from __future__ import annotations

from records import UBUNTU1 as UB

from causes.changes import Change, add_efa

CHANGES = {
    "efa on one": Change(UB, add_efa(pci=[], verbs=[])),
}
