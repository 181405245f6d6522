"""Cases of VC-141."""

from __future__ import annotations

from causes.faults import gpu

FAULTS = (gpu("acs", "acs=0x1d"),)
