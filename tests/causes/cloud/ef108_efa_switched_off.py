"""Cases of EF-108."""

from __future__ import annotations

from records import UBUNTU1 as UB

from causes.changes import Change, efa

CHANGES = {
    "efa switched off": Change(UB, efa(environment={"FI_PROVIDER": "tcp"})),
}
