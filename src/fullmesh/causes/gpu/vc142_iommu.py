"""The IOMMU translates every access of the GPUs (warning)

An IOMMU in translation mode is in the path between GPUs, and between GPUs and RDMA NICs.
Peer-to-peer transfers are slower or fail.

**Prove:** cat /sys/bus/pci/devices/GPU/iommu_group/type && dmesg | grep -i -E 'iommu|dmar'

**Fix:** Add iommu.passthrough=1 (x86: iommu=pt) to the kernel's command line and reboot.

**Source:** NCCL documentation, Troubleshooting, and kernel-parameters, iommu.passthrough=
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
