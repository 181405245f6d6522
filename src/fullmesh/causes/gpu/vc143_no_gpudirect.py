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

from fullmesh.causes.engine import RECORDED, Cause, CauseCase
from fullmesh.result.findings import WARNING

CAUSE = Cause(
    "VC-143",
    __doc__,
    severity=WARNING,
    cases=(CauseCase("gpu-direct", "the driver's closed modules, no nvidia_peermem", by=RECORDED),),
)
