"""Cases of VC-142."""

from __future__ import annotations

from causes.faults import gpu

FAULTS = (gpu("iommu", "iommu=DMA-FQ"),)
