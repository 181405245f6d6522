"""NCCL could not connect all GPUs, or hung

Some of NCCL's own connections (TCP sockets on ephemeral ports, or RDMA) failed.

**Prove:** run the job with NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=INIT,NET

**Fix:** Correct the link that ./fullmesh diagnose -i INVENTORY names, or the NIC that NCCL names.
"""

from __future__ import annotations

from fullmesh.causes.engine import Cause

CAUSE = Cause("VC-712", __doc__)
