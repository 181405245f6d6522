"""Cases of EF-108."""

from __future__ import annotations

from records import UBUNTU1 as UB

from causes.changes import Change, add_efa

CHANGES = {
    "efa switched off": Change(UB, add_efa(environment={"FI_PROVIDER": "tcp"})),
}
