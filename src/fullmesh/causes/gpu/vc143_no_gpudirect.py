"""RDMA NICs reach the GPUs' memory only through the host's memory (warning)

Without GPUDirect RDMA, each message is copied through the host's memory. NCCL prints GDR 0, and the
bandwidth is a fraction of the link's.

**Prove:** cat /proc/driver/nvidia/version && lsmod | grep peermem (with NCCL_DEBUG=INFO: `GPU
Direct RDMA Disabled`)

**Fix:** Use the open modules of NVIDIA's driver with Linux 5.12 or newer (dma_buf):
nvidia_driver_open: true. On older kernels, load nvidia_peermem.

**Source:** NVIDIA, GPUDirect RDMA, and NCCL documentation, Troubleshooting
"""

from __future__ import annotations

from collections.abc import Iterator

from fullmesh.causes.engine import RECORDED, Cause, CauseCase
from fullmesh.result.findings import WARNING, Finding
from fullmesh.verify.cards import list_gpu_nodes
from fullmesh.verify.model import ClusterObservations


def find_missing_gpudirect(seen: ClusterObservations) -> Iterator[Finding]:
    """Find RDMA NICs that only reach the GPUs' memory through the host's."""
    for node, box in list_gpu_nodes(seen):
        if box.rdma and box.gpus.get("direct") == "" and box.gpus["cards"]:
            yield Finding(
                "VC-143",
                "L1",
                f"RDMA NICs of {node} only reach the GPUs' memory through the host's: "
                "neither dma_buf nor nvidia_peermem",
                node=node,
                seen="no GPUDirect RDMA",
                expected="dma_buf",
                fix=f"on {node}: use the driver's open modules with Linux 5.12 or newer (role nvidia_driver: "
                "nvidia_driver_open: true). With other modules: modprobe nvidia_peermem",
                severity=WARNING,
            )


CAUSE = Cause(
    "VC-143",
    __doc__,
    find=find_missing_gpudirect,
    severity=WARNING,
    cases=(CauseCase("gpu-direct", "the driver's closed modules, no nvidia_peermem", by=RECORDED),),
)
