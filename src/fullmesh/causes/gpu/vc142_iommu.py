"""the IOMMU translates every access of the GPUs (warning)

An IOMMU that translates stands between GPUs, and between GPUs and RDMA cards.

**Prove:** cat /sys/bus/pci/devices/GPU/iommu_group/type; dmesg | grep -i -E 'iommu|dmar'

**Fix:** iommu.passthrough=1 (x86: iommu=pt) on the kernel's command line passes the machine's own devices through.

**Source:** NCCL documentation, Troubleshooting; kernel-parameters, iommu.passthrough=
"""

from __future__ import annotations

from fullmesh.causes.engine import RECORDED, Cause, CauseCase
from fullmesh.result.findings import WARNING

CAUSE = Cause(
    "VC-142",
    __doc__,
    severity=WARNING,
    cases=(CauseCase("gpu-iommu", "IOMMU groups of type DMA-FQ", by=RECORDED),),
)
