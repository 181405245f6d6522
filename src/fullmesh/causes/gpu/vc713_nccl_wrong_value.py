"""NCCL returned a wrong value

A sum over all GPUs was wrong: memory, a PCIe switch with ACS on, an IOMMU in the way of peer-to-peer.

**Prove:** NCCL_P2P_DISABLE=1, then the same again

**Fix:** IOMMU off or passthrough, ACS off; take the node out when it stays.

**Source:** NVIDIA, NCCL troubleshooting
"""

from __future__ import annotations

from fullmesh.causes.engine import Cause

CAUSE = Cause("VC-713", __doc__)
