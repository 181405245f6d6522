"""NCCL sends the GPUs' data through the host's memory (warning)

The kernel lets RDMA NICs access the GPUs' memory, but NCCL does not use that. Every byte passes
through the host's memory twice. By default NCCL uses direct access only if GPU and NIC share a PCIe
switch.

**Prove:** nvidia-smi topo -m (a job with NCCL_DEBUG=INFO prints `via NET/IB/0` without `/GDRDMA`)

**Fix:** Unset NCCL_NET_GDR_LEVEL. Use dma_buf (VC-143), or build nvidia_peermem for the RDMA driver
in use. Move the NIC to a slot on the GPUs' switch.

**Source:** NVIDIA, NCCL documentation, NCCL_NET_GDR_LEVEL, and NVIDIA/nccl issue 1537
"""

from __future__ import annotations

from fullmesh.causes.engine import Cause
from fullmesh.result.findings import WARNING

CAUSE = Cause("VC-723", __doc__, severity=WARNING)
