"""Cases of VC-134."""

from __future__ import annotations

from verify_changes import change_h100

from causes.faults import make_gpu_fault

VERIFICATION = {
    "memory to be remapped": change_h100(remapped_row_pending="Yes"),
}
FAULTS = (make_gpu_fault("pending", "2.remap_pending=1"),)
