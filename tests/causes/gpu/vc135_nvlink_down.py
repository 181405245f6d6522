"""Cases of VC-135."""

from __future__ import annotations

from causes.faults import gpu

FAULTS = (gpu("nvlink", "3.links_down=2"),)
