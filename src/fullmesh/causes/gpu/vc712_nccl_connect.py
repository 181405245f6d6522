"""NCCL could not connect all GPUs, or hung

Some of NCCL's own connections (TCP sockets on ephemeral ports, or RDMA) failed.

**Prove:** NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=INIT,NET

**Fix:** ./fullmesh diagnose -i INVENTORY. Then check the NIC that NCCL names.
"""

from __future__ import annotations

from fullmesh.causes.engine import Cause

CAUSE = Cause("VC-712", __doc__)
