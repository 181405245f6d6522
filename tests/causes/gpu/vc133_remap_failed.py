"""Cases of VC-133."""

from __future__ import annotations

from causes.faults import gpu

FAULTS = (gpu("remap", "1.remap_failed=1"),)
