"""Cases of VC-142."""

from __future__ import annotations

from verify_changes import change_pci_path

from causes.faults import make_gpu_fault

VERIFICATION = {
    "iommu": change_pci_path(iommu="DMA-FQ"),
}
FAULTS = (make_gpu_fault("iommu", "iommu=DMA-FQ"),)
