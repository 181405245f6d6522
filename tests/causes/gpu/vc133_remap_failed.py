"""Cases of VC-133."""

from __future__ import annotations

from verify_changes import change_h100

from causes.faults import make_gpu_fault

VERIFICATION = {
    "worn memory": change_h100(remapped_row_failure="Yes"),
}
FAULTS = (make_gpu_fault("remap", "1.remap_failed=1"),)
