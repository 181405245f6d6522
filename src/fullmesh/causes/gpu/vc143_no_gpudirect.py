"""RDMA cards reach the GPUs' memory through the host's only (warning)

Without GPUDirect RDMA each message is copied through the host's memory: NCCL prints GDR 0, and bandwidth is a
fraction of the link's.

**Prove:** NCCL_DEBUG=INFO shows `GPU Direct RDMA Disabled`; cat /proc/driver/nvidia/version; lsmod | grep peermem

**Fix:** The open modules of NVIDIA's driver with Linux 5.12 or newer (dma_buf): nvidia_driver_open: true.
nvidia_peermem is for older ones.

**Source:** NVIDIA, GPUDirect RDMA; NCCL documentation, Troubleshooting
"""

from __future__ import annotations

from fullmesh.causes.engine import RECORDED, Cause, CauseCase
from fullmesh.result.findings import WARNING

CAUSE = Cause(
    "VC-143",
    __doc__,
    severity=WARNING,
    cases=(CauseCase("gpu-direct", "the driver's closed modules, no nvidia_peermem", by=RECORDED),),
)
