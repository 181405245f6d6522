"""Cases of VC-115."""

from __future__ import annotations

from causes.faults import gpu

FAULTS = (gpu("persistence", "*.persistence=0"),)
