"""A rank has no GPU of its own while others have one

The rank shares a GPU with another rank, which NCCL refuses, or it trains on the CPU.

**Prove:** nvidia-smi -L && grep LOCAL /etc/fullmesh/env

**Fix:** Set fullmesh_local_ranks to the number of GPUs, or find the missing GPU.
"""

from __future__ import annotations

from fullmesh.causes.engine import Cause

CAUSE = Cause("VC-711", __doc__)
