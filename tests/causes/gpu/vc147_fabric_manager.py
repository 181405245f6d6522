"""Cases of VC-147."""

from __future__ import annotations

from causes.faults import gpu

FAULTS = (gpu("manager", "fm_version=580.82.07"),)
