"""NCCL uses TCP although every node has RDMA (warning)

NCCL looks on each node for RDMA by itself and takes TCP where it finds none that it may use, without a word at its
usual level. The job runs, only slower; how much depends on the network, so this is named whatever was measured.

**Prove:** NCCL_DEBUG=INFO NCCL_DEBUG_SUBSYS=INIT,NET,ENV: `Using network Socket`, and before it why; ibv_devinfo as
the account of the job; grep NCCL_ /etc/nccl.conf /etc/fullmesh/env

**Fix:** What the finding names: a variable, a file that only root may open, a module or a library that is missing.

**Source:** NVIDIA/nccl, src/plugin/net.cc, src/misc/ibvsymbols.cc
"""

from __future__ import annotations

from fullmesh.causes.engine import Cause, Explains
from fullmesh.result.findings import WARNING

CAUSE = Cause("VC-720", __doc__, severity=WARNING, weight=330, explains=(Explains(("VC-714",)),))
