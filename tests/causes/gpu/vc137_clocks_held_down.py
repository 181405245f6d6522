"""Cases of VC-137."""

from __future__ import annotations

from causes.faults import gpu

FAULTS = (gpu("hot", "4.throttle=0x48"),)
