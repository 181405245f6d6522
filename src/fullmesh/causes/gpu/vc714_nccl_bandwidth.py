"""NCCL's bandwidth is far below the link's speed (warning)

NCCL took a slower way than there is: a NIC far from the GPU, one of several NICs. TCP beside RDMA is VC-720.

**Prove:** NCCL_DEBUG=INFO (`via NET/…`); nvidia-smi topo -m

**Fix:** NCCL_SOCKET_IFNAME and NCCL_IB_HCA as role cluster_env writes them; for GPUDirect RDMA see VC-143.

**Source:** nccl-tests, PERFORMANCE.md
"""

from __future__ import annotations

from fullmesh.causes.engine import Cause
from fullmesh.result.findings import WARNING

CAUSE = Cause("VC-714", __doc__, severity=WARNING)
