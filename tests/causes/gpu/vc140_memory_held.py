"""Cases of VC-140."""

from __future__ import annotations

from verify_changes import change_h100

from causes.faults import make_gpu_fault

VERIFICATION = {
    "memory held": change_h100(used="28610 MiB"),
}
FAULTS = (make_gpu_fault("held", "6.memory_used=30000000000"),)
