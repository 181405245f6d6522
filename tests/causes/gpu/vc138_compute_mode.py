"""Cases of VC-138."""

from __future__ import annotations

from verify_changes import change_h100

from causes.faults import gpu

VERIFICATION = {
    "compute mode prohibited": change_h100(compute_mode="Prohibited"),
}
FAULTS = (gpu("prohibited", "5.compute_mode=2"),)
