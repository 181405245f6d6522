"""Cases of VC-114."""

from __future__ import annotations

from verify_changes import change_smi

from causes.faults import make_gpu_fault

VERIFICATION = {
    "few lanes": change_smi(current_link_width="4x"),
}
FAULTS = (make_gpu_fault("lanes", "7.width=4"),)
