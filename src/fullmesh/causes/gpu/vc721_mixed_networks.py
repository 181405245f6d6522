"""NCCL takes different networks on the nodes of one job

NCCL speaks one kind of network in a job, and no node asks the others what they took: one with InfiniBand and one with
TCP wait for each other for ever. What each took is said before they begin to wait.

**Prove:** NCCL_DEBUG=INFO on every node, grep 'Using network'

**Fix:** Repair the node that lacks it (VC-720 has the ways), or NCCL_NET=Socket on all.

**Source:** NVIDIA/nccl issues 234 and 878
"""

from __future__ import annotations

from fullmesh.causes.engine import Cause, Explains

CAUSE = Cause("VC-721", __doc__, weight=340, explains=(Explains(("VC-712", "VC-714")),))
