"""NCCL's bandwidth is far below the link's speed (warning)

NCCL uses a slower path than the best one, such as a NIC far from the GPU, or only one of several
NICs. If NCCL uses TCP although there is RDMA, see VC-720.

**Prove:** nvidia-smi topo -m (a job with NCCL_DEBUG=INFO prints its paths: `via NET/…`)

**Fix:** Set NCCL_SOCKET_IFNAME and NCCL_IB_HCA as role cluster_env does. For GPUDirect RDMA see
VC-143.

**Source:** nccl-tests, PERFORMANCE.md
"""

from __future__ import annotations

from fullmesh.causes.engine import Cause
from fullmesh.result.findings import WARNING

CAUSE = Cause("VC-714", __doc__, severity=WARNING)
