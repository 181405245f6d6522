"""nccl-tests failed on a node

nccl-tests ran on one node only, so the fault is between the GPUs of that node.

**Prove:** all_reduce_perf -b 8 -e 128M -f 2 -g GPUS

**Fix:** Set the IOMMU to passthrough and turn ACS off (see VC-713), or replace the GPU with the Xid.
"""

from __future__ import annotations

from fullmesh.causes.engine import Cause

CAUSE = Cause("VC-715", __doc__)
