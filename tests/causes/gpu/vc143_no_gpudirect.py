"""Cases of VC-143."""

from __future__ import annotations

from causes.faults import gpu_way

FAULTS = (gpu_way("direct", "open=0"),)
