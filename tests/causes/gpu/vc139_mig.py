"""Cases of VC-139."""

from __future__ import annotations

from verify_changes import change_h100

from causes.faults import make_gpu_fault

VERIFICATION = {
    "mig": change_h100(current_mig="Enabled"),
}
FAULTS = (make_gpu_fault("mig", "0.mig=1"),)
