"""Cases of VC-138."""

from __future__ import annotations

from verify_changes import change_h100

from causes.faults import make_gpu_fault

VERIFICATION = {
    "compute mode prohibited": change_h100(compute_mode="Prohibited"),
}
FAULTS = (make_gpu_fault("prohibited", "5.compute_mode=2"),)
