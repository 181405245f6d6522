"""Cases of EF-107."""

from __future__ import annotations

from records import EL1 as EL

from causes.changes import Change, add_efa

CHANGES = {
    "efa version": Change(EL, add_efa(driver_version="2.10.0")),
}
