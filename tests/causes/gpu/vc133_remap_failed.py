"""Cases of VC-133."""

from __future__ import annotations

from verify_changes import change_h100

from causes.faults import gpu

VERIFICATION = {
    "worn memory": change_h100(remapped_row_failure="Yes"),
}
FAULTS = (gpu("remap", "1.remap_failed=1"),)
