"""Cases of VC-115."""

from __future__ import annotations

from verify_changes import change_smi

from causes.faults import make_gpu_fault

VERIFICATION = {
    "persistence": change_smi(persistence_mode="Disabled"),
}
FAULTS = (make_gpu_fault("persistence", "*.persistence=0"),)
