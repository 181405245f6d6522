"""The IOMMU translates every access of the GPUs (warning)

An IOMMU in translation mode is in the path between GPUs, and between GPUs and RDMA NICs.
Peer-to-peer transfers are slower or fail.

**Prove:** cat /sys/bus/pci/devices/GPU/iommu_group/type && dmesg | grep -i -E 'iommu|dmar'

**Fix:** Add iommu.passthrough=1 (x86: iommu=pt) to the kernel's command line and reboot.

**Source:** NCCL documentation, Troubleshooting, and kernel-parameters, iommu.passthrough=
"""

from __future__ import annotations

from collections.abc import Iterator

from fullmesh.causes.engine import RECORDED, Cause, CauseCase
from fullmesh.result.findings import WARNING, Finding, join_names
from fullmesh.verify.cards import list_gpu_nodes
from fullmesh.verify.model import ClusterObservations


def find_iommu_translation(seen: ClusterObservations) -> Iterator[Finding]:
    """Find GPUs and RDMA NICs whose accesses the IOMMU translates."""
    for node, box in list_gpu_nodes(seen):
        paths = box.gpus.get("paths", [])
        translated = [path["bus"] for path in paths if path["iommu"].startswith("DMA")]
        if len(paths) > 1 and translated:
            yield Finding(
                "VC-142",
                "L1",
                f"the IOMMU of {node} translates every access of {join_names(translated)}: "
                "peer-to-peer is slow or hangs",
                node=node,
                seen=f"IOMMU group type {next(p['iommu'] for p in paths if p['iommu'].startswith('DMA'))}",
                expected="identity, or no IOMMU",
                fix=f"on {node}: add iommu.passthrough=1 to the kernel's command line (or disable the IOMMU in the "
                "firmware), and reboot",
                severity=WARNING,
            )


CAUSE = Cause(
    "VC-142",
    __doc__,
    find=find_iommu_translation,
    severity=WARNING,
    cases=(CauseCase("gpu-iommu", "IOMMU groups of type DMA-FQ", by=RECORDED),),
)
