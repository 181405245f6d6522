"""NCCL could not connect all GPUs, or hung

NCCL's own connections (sockets on ports of the kernel, or RDMA) did not all come up.

**Prove:** NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=INIT,NET

**Fix:** ./fullmesh diagnose -i INVENTORY; then the NIC that NCCL names.
"""

from __future__ import annotations

from fullmesh.causes.engine import Cause

CAUSE = Cause("VC-712", __doc__)
