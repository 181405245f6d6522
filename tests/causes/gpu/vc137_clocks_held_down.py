"""Cases of VC-137."""

from __future__ import annotations

from verify_changes import change_h100

from causes.faults import gpu

VERIFICATION = {
    "hot": change_h100(clocks_event_reason_hw_thermal_slowdown="Active"),
}
FAULTS = (gpu("hot", "4.throttle=0x48"),)
