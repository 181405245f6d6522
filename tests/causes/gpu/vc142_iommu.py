"""Cases of VC-142."""

from __future__ import annotations

from verify_changes import on_the_way

from causes.faults import gpu

VERIFICATION = {
    "iommu": on_the_way(iommu="DMA-FQ"),
}
FAULTS = (gpu("iommu", "iommu=DMA-FQ"),)
