"""Cases of VC-132."""

from __future__ import annotations

from causes.faults import gpu

FAULTS = (gpu("hidden", "gpus=7"),)
