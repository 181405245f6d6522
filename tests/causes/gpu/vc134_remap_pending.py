"""Cases of VC-134."""

from __future__ import annotations

from causes.faults import gpu

FAULTS = (gpu("pending", "2.remap_pending=1"),)
