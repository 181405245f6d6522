"""Cases of VC-112."""

from __future__ import annotations

from causes.faults import gpu

FAULTS = (gpu("ecc", "0.ecc_lost=2"),)
