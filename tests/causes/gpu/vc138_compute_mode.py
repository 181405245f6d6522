"""Cases of VC-138."""

from __future__ import annotations

from causes.faults import gpu

FAULTS = (gpu("prohibited", "5.compute_mode=2"),)
