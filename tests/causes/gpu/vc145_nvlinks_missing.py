"""Cases of VC-145."""

from __future__ import annotations

from causes.faults import gpu

FAULTS = (gpu("bridge", "3.links=12"),)
