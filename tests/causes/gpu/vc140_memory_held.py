"""Cases of VC-140."""

from __future__ import annotations

from causes.faults import gpu

FAULTS = (gpu("held", "6.memory_used=30000000000"),)
