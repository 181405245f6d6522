"""Cases of VC-137."""

from __future__ import annotations

from verify_changes import change_h100

from causes.faults import make_gpu_fault

VERIFICATION = {
    "hot": change_h100(clocks_event_reason_hw_thermal_slowdown="Active"),
}
FAULTS = (make_gpu_fault("hot", "4.throttle=0x48"),)
