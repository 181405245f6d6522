"""Cases of VC-115."""

from __future__ import annotations

from verify_changes import swap

from causes.faults import gpu

VERIFICATION = {
    "persistence": swap(persistence_mode="Disabled"),
}
FAULTS = (gpu("persistence", "*.persistence=0"),)
