"""Cases of VC-139."""

from __future__ import annotations

from causes.faults import gpu

FAULTS = (gpu("mig", "0.mig=1"),)
