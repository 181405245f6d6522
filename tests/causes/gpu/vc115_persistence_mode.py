"""Cases of VC-115."""

from __future__ import annotations

from verify_changes import change_smi

from causes.faults import gpu

VERIFICATION = {
    "persistence": change_smi(persistence_mode="Disabled"),
}
FAULTS = (gpu("persistence", "*.persistence=0"),)
