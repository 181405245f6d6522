"""NCCL sends the GPUs' data through the host's memory (warning)

The kernel lets RDMA cards reach the GPUs' memory and NCCL does not use it: every byte goes through the host's memory,
twice. By itself NCCL does so only where a PCIe switch is common to both.

**Prove:** NCCL_DEBUG=INFO: `via NET/IB/0` without `/GDRDMA`, `GPU Direct RDMA Disabled for HCA`; nvidia-smi topo -m

**Fix:** NCCL_NET_GDR_LEVEL unset; nvidia_peermem built against the RDMA driver in use, or dma_buf (VC-143); the card
in a slot beside the GPUs.

**Source:** NVIDIA, NCCL documentation, NCCL_NET_GDR_LEVEL; NVIDIA/nccl issue 1537
"""

from __future__ import annotations

from fullmesh.causes.engine import Cause
from fullmesh.result.findings import WARNING

CAUSE = Cause("VC-723", __doc__, severity=WARNING)
