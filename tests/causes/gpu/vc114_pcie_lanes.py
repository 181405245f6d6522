"""Cases of VC-114."""

from __future__ import annotations

from causes.faults import gpu

FAULTS = (gpu("lanes", "7.width=4"),)
