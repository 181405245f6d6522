"""NCCL returned a wrong value

A sum over all GPUs was wrong. Possible causes are faulty memory, a PCIe switch with ACS on, or an
IOMMU in the path of peer-to-peer transfers.

**Prove:** NCCL_P2P_DISABLE=1, then repeat the command

**Fix:** Set the IOMMU to passthrough and turn ACS off. If the error stays, leave the node out of
jobs.

**Source:** NVIDIA, NCCL troubleshooting
"""

from __future__ import annotations

from fullmesh.causes.engine import Cause

CAUSE = Cause("VC-713", __doc__)
