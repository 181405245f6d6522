"""Cases of EF-106."""

from __future__ import annotations

from records import UBUNTU1 as UB

from causes.changes import Change, efa

CHANGES = {
    "efa on one": Change(UB, efa(pci=[], verbs=[])),
}
